// gemv_q4_gated.wgsl whose spare workgroups read the weights of later kernels: see lib/ahead/read_two.wgsl.

// use lib/quads.wgsl
// use lib/math.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/gemv_q4.wgsl
// use lib/gemm/gemv_row_${ROW}.wgsl
// use lib/gemm/gemv_gated.wgsl
// use lib/ahead/read_two.wgsl

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32, // the same for both
    eps: f32,
    min_scale: f32, // of a row that is rounded
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>; // of the gate
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> up_weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> up_scales: array<StoredQuad>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<storage, read> ahead_0: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read> ahead_1: array<vec4<u32>>;
@group(0) @binding(9) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let workgroups = (params.gemm.n + COLUMNS - 1u) / COLUMNS;
    if (group.x >= workgroups) {
        if (read_ahead(group.x - workgroups, groups.x - workgroups, thread, THREADS)) {
            output[0] = Out();
        }
        return;
    }
    let first = group.x * COLUMNS;
    multiply_gated(thread, first);
}
