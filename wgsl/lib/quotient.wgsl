// Quotients rounded to the nearest float32: the built-in one may be off by an ulp or two, which
// could move a tie or a whole number.

// a - q * b, exactly. Some GPUs round the product inside of fma, too: there its rounding error is
// taken off (Dekker). It must not be where fma is exact, and compilers put an fma in place of
// products and sums as they like; a non-zero error by fma shows that it is exact.
fn exact_remainder(a: vec4<f32>, q: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q_high = 4097.0 * q - (4097.0 * q - q);
    let b_high = 4097.0 * b - (4097.0 * b - b);
    let q_low = q - q_high;
    let b_low = b - b_high;
    let product = q * b;
    let error = ((q_high * b_high - product) + q_high * b_low + q_low * b_high) + q_low * b_low;
    let remainder = fma(-q, b, a);
    return select(remainder - error, remainder, fma(q, b, -product) != vec4<f32>());
}

// Where the correction is not finite, the built-in quotient has the right zero, infinity or NaN.
fn exact_quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let estimate = a / b;
    let corrected = estimate + exact_remainder(a, estimate, b) / b;
    let finite = (bitcast<vec4<u32>>(corrected) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u);
    return select(estimate, corrected, finite);
}

fn exact_quotient_f32(a: f32, b: f32) -> f32 {
    return exact_quotient(vec4<f32>(a), vec4<f32>(b)).x;
}
