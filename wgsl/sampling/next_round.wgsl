// The start of a round of speculative decoding: its position, its first token, and the rows of a
// table for the positions from there on. An invocation writes one word.

// use lib/grid.wgsl
// use lib/sampling/accepted.wgsl

struct Params {
    tokens: u32, // of a round
    rows: u32, // of the table
    width: u32, // words of a row
}

@group(0) @binding(0) var<storage, read> tokens: array<i32>;
@group(0) @binding(1) var<storage, read> sampled: array<i32>;
@group(0) @binding(2) var<storage, read> position: array<i32>;
@group(0) @binding(3) var<storage, read> table: array<i32>;
@group(0) @binding(4) var<storage, read_write> output: array<i32>;
@group(0) @binding(5) var<uniform> first: vec4<i32>;
@group(0) @binding(6) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    if (word >= (params.tokens + 1u) * params.width) {
        return;
    }
    let right = accepted();
    let next = position[0] + i32(right) + 1;
    let row = word / params.width;
    let column = word % params.width;
    if (row < params.tokens) {
        let place = u32(clamp(next - first.x + i32(row), 0, i32(params.rows) - 1));
        output[word] = table[place * params.width + column];
    } else if (column == 0u) {
        output[word] = next;
    } else {
        output[word] = select(0, sampled[right], column == 1u);
    }
}
