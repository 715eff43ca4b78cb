// For matmul_subgroup_matrix.wgsl: splits the rows of A [m, k], then those of B [n, k], into f16 with
// exponents.

// use lib/matrix/subgroup_matrix.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/gemm_operands.wgsl
// use lib/matrix/f16_scaling.wgsl
// use lib/matrix/split_f16.wgsl

struct Params {
    gemm: Gemm,
}

@group(0) @binding(0) var<storage, read> a: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> b: array<StoredQuad>;
@group(0) @binding(2) var<storage, read_write> split_f16: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> exponents: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

fn row_quad(row: u32, k: u32) -> vec4<f32> {
    if (row < params.gemm.m) {
        return a_run(0u, row, k);
    }
    return b_run(0u, row - params.gemm.m, k);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let row = group.x + group.y * groups.x;
    if (row < params.gemm.m + params.gemm.n) {
        split_row(thread, row);
    }
}
