// Quotients rounded to the nearest float32: the built-in one may be off by an ulp or two, which
// could change a tie or an integer result.

// Whether fma rounds once, as it should: some GPUs round the product inside of it, too. The square of
// 1 + m * 2^-23 is never a float32 for an odd m; bits of x are in it so that it is no constant.
fn fma_is_exact(x: vec4<f32>) -> vec4<bool> {
    let odd = bitcast<vec4<f32>>((bitcast<vec4<u32>>(x) & vec4<u32>(0xffeu)) | vec4<u32>(0x3f800801u));
    return fma(odd, odd, -(odd * odd)) != vec4<f32>();
}

// a - q * b. Where fma is not exact, the rounding error of the product is taken off (Dekker); where it
// is, compilers use it in place of products and sums as they like, which spoils the error.
fn exact_remainder(a: vec4<f32>, q: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q_high = 4097.0 * q - (4097.0 * q - q);
    let b_high = 4097.0 * b - (4097.0 * b - b);
    let q_low = q - q_high;
    let b_low = b - b_high;
    let product = q * b;
    let error = ((q_high * b_high - product) + q_high * b_low + q_low * b_high) + q_low * b_low;
    return select((a - product) - error, fma(-q, b, a), fma_is_exact(b));
}

// Where the correction is not finite, the built-in quotient has the right zero, infinity or NaN.
fn exact_quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let estimate = a / b;
    // By fma, or a compiler may add up before it divides.
    let corrected = fma(exact_remainder(a, estimate, b), 1.0 / b, estimate);
    let finite = (bitcast<vec4<u32>>(corrected) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u);
    return select(estimate, corrected, finite);
}

fn exact_quotient_f32(a: f32, b: f32) -> f32 {
    return exact_quotient(vec4<f32>(a), vec4<f32>(b)).x;
}
