// Variances of rows: the mean first, then the sum of squared deviations.
//
// STORED and OUT are the stored types, ITEM one element or a quad of them.

// use lib/quads.wgsl
// use lib/elements.wgsl
// use lib/reduce/sum.wgsl
// use lib/reduce/row_reduction.wgsl
// use lib/reduce/walk.wgsl

alias Item = ${ITEM};

struct Params {
    rows: u32,
    length: u32, // items in a row
    kept_axes: u32,
    count: f32, // elements in a row
    divisor: f32,
    axes: array<vec4<u32>, MAX_AXES>,
}

@group(0) @binding(0) var<storage, read> input: array<${STORED}>;
@group(0) @binding(1) var<storage, read_write> output: array<${OUT}>;
@group(0) @binding(2) var<uniform> params: Params;

fn item(i: u32) -> Item { return ${LOAD}; }
fn across(x: Item) -> f32 { return ${ACROSS}; }
fn finish(variance: f32) -> f32 { return ${FINISH}; }

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let inside = place.row < params.rows;
    let end = select(0u, params.length, inside);
    let base = offset_of(place.row, 0u, params.kept_axes);
    var total = Item();
    for (var i = place.lane; i < end; i += LANES) {
        total += item(base + reduced_offset(i));
    }
    let mean = reduce_lanes(across(total), place) / params.count;
    var squares = Item();
    for (var i = place.lane; i < end; i += LANES) {
        let above = item(base + reduced_offset(i)) - mean;
        squares += above * above;
    }
    let result = reduce_lanes(across(squares), place);
    if (inside && place.lane == 0u) {
        output[place.row] = ${OUT}(finish(result / params.divisor));
    }
}
