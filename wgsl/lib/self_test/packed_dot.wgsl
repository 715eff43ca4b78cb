// Self-test of dot products of four signed bytes in a word.

// use lib/self_test/bindings.wgsl

const COUNT = ${COUNT}u;

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<i32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(COUNT)
fn main(@builtin(local_invocation_index) lane: u32) {
    output[lane] = dot4I8Packed(input[lane], input[COUNT + lane]) + i32(params.seed);
}
