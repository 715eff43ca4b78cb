// The token of each row: one that is given, which the history then has, or the one that the history has in its place.

// use lib/grid.wgsl
// use lib/attention/slots.wgsl

struct Params {
    rows: u32,
    slots: i32,
    positions: i32, // of a slot
}

@group(0) @binding(0) var<storage, read> given: array<i32>;
@group(0) @binding(1) var<storage, read> places: array<vec4<i32>>;
@group(0) @binding(2) var<storage, read_write> history: array<i32>;
@group(0) @binding(3) var<storage, read_write> output: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let row = flat_index(invocation, workgroups);
    if (row >= params.rows) {
        return;
    }
    let position = position_in(places[row], params.slots, params.positions);
    if (position < 0) {
        output[row] = 0;
        return;
    }
    var token = given[row];
    if (token < 0) {
        token = history[position];
    } else {
        history[position] = token;
    }
    output[row] = token;
}
