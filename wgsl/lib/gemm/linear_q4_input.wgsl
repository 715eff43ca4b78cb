// The rows of x [m, k] of a GEMM with quantized weights. Goes with lib/gemm/gemm.wgsl and lib/quads.wgsl.
//
// Bindings: `x`, `row_scales` (arrays of StoredQuad) and `row_zeros` (quads of ZERO). With QUANTIZED,
// x is rounded to int8 with a scale (with INVERTED, its inverse) and a zero per row.

// use lib/quotient.wgsl
// use lib/quant/scale_pair.wgsl

override X_ALIGNED: bool; // k is a multiple of four
override QUANTIZED: bool;

fn fake_quantize_int8(values: vec4<f32>, row: u32) -> vec4<f32> {
    let scale = scale_pair(f32(row_scales[row / 4u][row % 4u]));
    let zero = load_${ZERO}_as_f32(row_zeros[row / 4u])[row % 4u];
    return (clamp(round(values * scale.y) + zero, vec4<f32>(-128.0), vec4<f32>(127.0)) - zero) * scale.x;
}

// Four values of a row, zeros outside of the matrix.
fn x_quad(row: u32, k: u32) -> vec4<f32> {
    let length = params.gemm.k;
    if (row >= params.gemm.m || k >= length) {
        return vec4<f32>();
    }
    let at = row * length + k;
    var values = vec4<f32>();
    if (X_ALIGNED) {
        values = vec4<f32>(x[at / 4u]);
    } else {
        for (var i = 0u; i < min(4u, length - k); i++) {
            values[i] = f32(x[(at + i) / 4u][(at + i) % 4u]);
        }
    }
    if (QUANTIZED) {
        return fake_quantize_int8(values, row);
    }
    return values;
}
