// Three GEMVs of one row with quantized weights in one dispatch. Their outputs are in one buffer, each
// at its place in `params.matrices`. See lib/gemm/gemv_q4.wgsl.

// use lib/quads.wgsl
// use lib/quotient.wgsl
// use lib/nan.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/gemv_q4.wgsl
// use lib/gemm/gemv_row_${ROW}.wgsl
// use lib/gemm/gemv_qkv.wgsl

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32, // ignored
    // Of each matrix: columns, its first workgroup, stride from one group's scales to the next, and
    // where in the output it begins
    matrices: array<vec4<u32>, 3>,
    eps: f32,
    min_scale: f32, // of a row that is rounded
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> second_weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> second_scales: array<StoredQuad>;
@group(0) @binding(6) var<storage, read> third_weights: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> third_scales: array<StoredQuad>;
@group(0) @binding(8) var<storage, read_write> output: array<Out>;
@group(0) @binding(9) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let index = group.x + group.y * groups.x;
    multiply_qkv(thread, index);
}
