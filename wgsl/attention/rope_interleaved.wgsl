// Rotary position embedding as a product of complex numbers: neighbours are (real, imaginary),
// in the tensor and in the table, which is the same for all batches.

// use lib/grid.wgsl

alias Pair = vec2<${FLOAT}>;

struct Params {
    pairs: u32,
    table: u32, // pairs of the table
}

@group(0) @binding(0) var<storage, read> input: array<Pair>;
@group(0) @binding(1) var<storage, read> angles: array<Pair>;
@group(0) @binding(2) var<storage, read_write> output: array<Pair>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let pair = flat_index(invocation, workgroups);
    if (pair >= params.pairs) {
        return;
    }
    let x = vec2<f32>(input[pair]);
    let angle = vec2<f32>(angles[pair % params.table]);
    output[pair] = Pair(vec2<f32>(x.x * angle.x - x.y * angle.y, x.x * angle.y + x.y * angle.x));
}
