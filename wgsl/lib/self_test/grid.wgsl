// Self-test of a grid with as many workgroups along x as WebGPU allows, folded to two rows: the invocations
// around the fold and those at the end write their index.

// use lib/self_test/bindings.wgsl

const SEEN = ${SEEN}u; // invocations before the fold, after it, and at the end

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(1)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let index = id.x + id.y * groups.x;
    let fold = groups.x - SEEN;
    let end = groups.x * groups.y - SEEN;
    if (index >= end) {
        output[2u * SEEN + index - end] = index + input[0] + params.seed;
    } else if (index >= fold && index < fold + 2u * SEEN) {
        output[index - fold] = index + input[0] + params.seed;
    }
}
