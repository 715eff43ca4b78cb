// The rows of x [m, k] of a GEMM as floats, k being a multiple of four. Goes with lib/gemm/gemm.wgsl; the kernel
// declares `x`, an array of StoredQuad.

// Four values of a row, zeros outside of the matrix.
fn x_quad(row: u32, k: u32) -> vec4<f32> {
    if (row >= params.gemm.m || k >= params.gemm.k) {
        return vec4<f32>();
    }
    return vec4<f32>(x[(row * params.gemm.k + k) / 4u]);
}
