// The scale and zero point of a row that is rounded to int8, from its minimum and maximum, after an RMS norm with
// NORMED. The kernel declares `params.gemm`, `params.eps` and `params.min_scale`, the smallest scale. Goes with
// lib/quotient.wgsl and lib/nan.wgsl.

override NORMED: bool = false;
override INVERSE_FIRST: bool = false; // scale and zero point as in choose_qparams_qd8; min_scale is 0

// Rounds a product, so that it is not fused with a sum: the compiler does not know that min_scale is 0.
fn alone(product: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(product) | bitcast<u32>(params.min_scale));
}

// The inverse of the scale and the zero point of a row that reaches from `lowest` to `highest`.
fn qparams_by_inverse(lowest: f32, highest: f32) -> vec2<f32> {
    let inverse = select(exact_quotient_f32(255.0, highest - lowest), 1.0, highest == lowest);
    let first = alone(lowest * inverse);
    let last = alone(highest * inverse);
    let below = (-128.0 + first) + (127.0 + last) > 0.0;
    let zero = round(select(127.0 - last, -128.0 - first, below));
    return vec2<f32>(inverse, clamp(zero, -128.0, 127.0));
}

// Scale, 1 / scale, zero and 1 / rms of a row: `seen` has its sum of squares, minimum and maximum.
fn qparams_of(seen: vec4<f32>) -> vec4<f32> {
    var rms = 1.0;
    if (NORMED) {
        rms = inverseSqrt(seen.x / f32(params.gemm.k) + params.eps);
    }
    let lowest = seen.y * rms;
    var scale = max(exact_quotient_f32(seen.z * rms - lowest, 255.0), params.min_scale);
    if (is_nan_f32(seen.x)) { // min and max may drop a NaN
        scale = seen.x;
    }
    if (INVERSE_FIRST) {
        let chosen = qparams_by_inverse(lowest, seen.z * rms);
        let inverse = select(chosen.x, seen.x, is_nan_f32(seen.x));
        return vec4<f32>(exact_quotient_f32(1.0, inverse), inverse, chosen.y, rms);
    }
    let zero = clamp(-128.0 - round(exact_quotient_f32(lowest, scale)), -128.0, 127.0);
    return vec4<f32>(scale, exact_quotient_f32(1.0, scale), zero, rms);
}

// The integers of four values, as floats.
fn codes_of(values: vec4<f32>, qparams: vec4<f32>) -> vec4<f32> {
    return clamp(round(values * qparams.y) + qparams.z, vec4<f32>(-128.0), vec4<f32>(127.0));
}

fn fake_quantized(values: vec4<f32>, qparams: vec4<f32>) -> vec4<f32> {
    return (codes_of(values, qparams) - qparams.z) * qparams.x;
}
