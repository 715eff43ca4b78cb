// Logarithms and powers of two in integers, equal on every GPU: the counterpart of
// pysrc/webpte/engine/ops/core/fixed_point.py, bit for bit. Q24 means a number times 2^24.

// use lib/int64.wgsl

// c0 - f (c1 - f (c2 - f c3)) for f in Q32.
fn alternating(c: vec4u, f: u32) -> u32 {
    return c.x - mul_hi(c.y - mul_hi(c.z - mul_hi(c.w, f), f), f);
}

// For m in Q32, from 1/2 to 1: -log2(m) / (1 - m) in Q30, off by 2^-21.7 at most.
fn log_slope(mantissa: u32) -> u32 {
    let f = mantissa << 1u;
    let tail = alternating(vec4u(303085331u, 182182777u, 74264941u, 14357811u), f);
    return alternating(vec4u(2147483333u, 950638044u, 597453792u, 426026991u - mul_hi(tail, f)), f);
}

// -log2(n / 2^32) in Q24, for words from 1 on.
fn negative_log2(n: u32) -> u32 {
    let zeros = countLeadingZeros(n);
    let mantissa = n << zeros;
    return (zeros << 24u) + (mul_hi(0u - mantissa, log_slope(mantissa)) >> 6u);
}

// log2(-log2(n / 2^32)) in Q24, for odd n: the logarithm of an exponentially distributed waiting
// time. Near n = 2^32 the inner logarithm keeps all its digits: it is a product, not a difference.
fn log2_of_wait(n: u32) -> i32 {
    let zeros = countLeadingZeros(n);
    let mantissa = n << zeros;
    let slope = log_slope(mantissa);
    let rest = 0u - mantissa;
    let rest_zeros = countLeadingZeros(rest);
    let product = mul_hi(select(rest, rest << rest_zeros, zeros == 0u), slope);
    let scaled = select((zeros << 26u) + (product >> 4u), product, zeros == 0u);
    let exponent = select(6, 2 - i32(rest_zeros), zeros == 0u);
    return (exponent << 24u) - i32(negative_log2(scaled));
}

// 2^-x in Q31, for x in Q24; 2^-f is off by 2^-22.1 at most.
fn negative_power(x: u32) -> u32 {
    let f = (x & 0xffffffu) << 8u;
    let tail = 20069627u - mul_hi(2156798u, f);
    let power = 0x80000000u - mul_hi(alternating(vec4u(1488521742u, 515857503u, 118990885u, tail), f), f);
    return select(0u, power >> min(x >> 24u, 31u), x < (32u << 24u));
}
