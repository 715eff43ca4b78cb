// Reductions over any axes: output[row] = all items of the row, combined.
//
// STORED and OUT are the stored types, ACC the type to combine in, ITEM one element of it or a quad.
// A row may be split into parts, each with an output of its own, for a second dispatch to combine.

// use lib/quads.wgsl
// use lib/elements.wgsl
// use lib/nan.wgsl
// use lib/reduce/row_reduction.wgsl
// use lib/reduce/walk.wgsl

alias Item = ${ITEM};
alias Reduced = ${ACC};

struct Params {
    rows: u32,
    length: u32, // items in a row
    parts: u32, // per row
    part: u32, // items in one
    kept_axes: u32,
    count: f32, // elements in a row
    identity: ${ACC},
    axes: array<vec4<u32>, MAX_AXES>, // (size, stride) in items: the kept ones, then the reduced ones
}

@group(0) @binding(0) var<storage, read> input: array<${STORED}>;
@group(0) @binding(1) var<storage, read_write> output: array<${OUT}>;
@group(0) @binding(2) var<uniform> params: Params;

fn item(i: u32) -> Item { return ${LOAD}; }
fn merge(a: Item, b: Item) -> Item { return ${MERGE}; }
fn combine(a: ${ACC}, b: ${ACC}) -> ${ACC} { return ${COMBINE}; }
fn across(x: Item) -> ${ACC} { return ${ACROSS}; }
fn finish(total: ${ACC}) -> ${ACC} { return ${FINISH}; }

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let inside = place.row < params.rows * params.parts;
    // Parts of one row, or one part of neighbouring rows, side by side: as the threads are.
    let row = select(place.row / params.parts, place.row % params.rows, ROWS_FASTEST);
    let part = select(place.row % params.parts, place.row / params.rows, ROWS_FASTEST);
    var total = Item(params.identity);
    if (inside) {
        let base = offset_of(row, 0u, params.kept_axes);
        let end = min(params.length, (part + 1u) * params.part);
        for (var i = part * params.part + place.lane; i < end; i += LANES) {
            total = merge(total, item(base + reduced_offset(i)));
        }
    }
    let result = reduce_lanes(across(total), place);
    if (inside && place.lane == 0u) {
        output[row * params.parts + part] = ${OUT}(finish(result));
    }
}
