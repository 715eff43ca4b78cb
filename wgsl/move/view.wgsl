// A flat copy, for views that cannot share the memory of their source.
// Bits move as u32, so NaN payloads and -0.0 arrive as they were.

// use lib/grid.wgsl

struct Params {
    quads: u32, // 16 bytes each
}

@group(0) @binding(0) var<storage, read> input: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> output: array<vec4<u32>>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad < params.quads) {
        output[quad] = input[quad];
    }
}
