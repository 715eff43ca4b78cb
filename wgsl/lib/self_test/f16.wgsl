// Self-test of f16: numbers are read from memory, computed with, and written back.

enable f16;

// use lib/self_test/bindings.wgsl

@group(0) @binding(0) var<storage, read> input: array<f16>;
@group(0) @binding(1) var<storage, read_write> output: array<f16>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let quad = vec4<f16>(input[4u * id.x], input[4u * id.x + 1u], input[4u * id.x + 2u], input[4u * id.x + 3u]);
    let widened = vec4<f32>(quad) * f32(params.seed);
    let narrowed = vec4<f16>(widened);
    for (var i = 0u; i < 4u; i++) {
        output[4u * id.x + i] = narrowed[i];
    }
}
