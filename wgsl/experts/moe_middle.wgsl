// Each chosen expert's first half: silu(w1 x) * w3 x, with w1 and w3 in one matrix of 2 * hidden rows.
// A row of the dispatch is an element of a token's chosen expert.

// use lib/math.wgsl
// use lib/experts/packed_row.wgsl
// use lib/reduce/row_reduction.wgsl

alias Reduced = vec2<f32>; // of w1 and w3

fn combine(a: Reduced, b: Reduced) -> Reduced { return a + b; }

struct Params {
    matrix: PackedMatrix,
    rows: u32,
    hidden: u32,
    activated: u32, // experts of a token
    first: u32, // token of this dispatch
}

@group(0) @binding(0) var<storage, read> x: array<vec4<${FLOAT}>>;
@group(0) @binding(1) var<storage, read> chosen: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> packed: array<u32>;
@group(0) @binding(3) var<storage, read_write> middle: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let row = place.row % params.hidden;
    let number = place.row / params.hidden; // of a token and an expert, in this dispatch
    let token = params.first + number / params.activated;
    let expert = chosen[params.first * params.activated + number].x;
    let up_start = row_start(expert, row);
    let gate_start = row_start(expert, params.hidden + row);
    let end = select(0u, params.matrix.items, place.row < params.rows);
    var sums = Reduced();
    for (var item = place.lane; item < end; item += LANES) {
        let at = (token * params.matrix.items + item) * 4u;
        let given = mat4x4<f32>(vec4<f32>(x[at]), vec4<f32>(x[at + 1u]), vec4<f32>(x[at + 2u]), vec4<f32>(x[at + 3u]));
        // hidden is a multiple of the rows of a block, so both are the same line of theirs.
        sums += Reduced(item_dot(up_start, row, item, given), item_dot(gate_start, row, item, given));
    }
    let found = reduce_lanes(sums, place);
    if (place.lane == 0u && place.row < params.rows) {
        let value = found.x * sigmoid(vec4<f32>(found.x)).x * found.y;
        middle[place.row] = select(params.matrix.nan, value, is_universal(expert));
    }
}
