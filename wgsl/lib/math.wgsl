// Functions that WGSL lacks, or specifies too loosely to trust: as accurate as float32 allows.

// use lib/nan.wgsl
// use lib/quotient.wgsl
// use lib/functions.wgsl

// Built-in functions leave NaN undefined; here a NaN stays a NaN.
fn keep_nan(x: vec4<f32>, result: vec4<f32>) -> vec4<f32> { return select(result, x, is_nan_vec4f(x)); }

// x rounded to f16, ties to even, for GPUs without f16.
fn half_of(x: vec4<f32>) -> vec4<f32> {
    let sign = bitcast<vec4<u32>>(x) & vec4<u32>(0x80000000u);
    let size = bitcast<vec4<u32>>(x) ^ sign;
    let even = (size + vec4<u32>(0xfffu) + ((size >> vec4<u32>(13u)) & vec4<u32>(1u))) & vec4<u32>(0xffffe000u);
    let bounded_size = select(even, vec4<u32>(0x7f800000u), size >= vec4<u32>(0x477ff000u)); // 65520
    // Below 2^-14, f16 numbers are multiples of 2^-24.
    let tiny = bitcast<vec4<u32>>(round(abs(x) * 16777216.0) / 16777216.0);
    let rounded = select(bounded_size, tiny, size < vec4<u32>(0x38800000u));
    return keep_nan(x, bitcast<vec4<f32>>(rounded | sign));
}

// x rounded to bfloat16, the upper half of its bits, ties to even. A NaN keeps its upper bits and becomes quiet.
fn bfloat16_of(x: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(x);
    let even = bits + vec4<u32>(0x7fffu) + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u));
    let is_nan = (bits & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
    return bitcast<vec4<f32>>(select(even, bits | vec4<u32>(0x400000u), is_nan) & vec4<u32>(0xffff0000u));
}

// exp(-|x|) cannot overflow, which 1 / (1 + exp(-x)) does for large negative x.
fn sigmoid(x: vec4<f32>) -> vec4<f32> {
    let e = exp(-abs(x));
    return keep_nan(x, select(vec4<f32>(1.0), e, x < vec4<f32>()) / (1.0 + e));
}

// Near 0 the quotient cancels, so a series takes over; the built-in is NaN for large x on some GPUs.
fn stable_tanh(x: vec4<f32>) -> vec4<f32> {
    let s = x * x;
    let series = x * (1.0 + s * (-0.33333333 + s * (0.13333333 + s * (-0.05396825 + s * 0.02186949))));
    let e = exp(-2.0 * abs(x));
    let quotient = sign(x) * (1.0 - e) / (1.0 + e);
    return select(quotient, series, abs(x) < vec4<f32>(0.25));
}

// WGSL promises sine and cosine only to 2^-11 and only near 0. The quadrant is taken off first, and the
// rest is a polynomial.
struct Turn {
    quadrant: vec4<i32>,
    rest: vec4<f32>, // in radians, from -pi/4 to pi/4
}

// In four steps: pi/2 is split into parts of 8 bits, so that each product is exact for |x| up to
// 10^5 also where fma rounds twice.
fn small_turn(x: vec4<f32>) -> Turn {
    let n = round(x * 0.63661977);
    var rest = x - n * 1.5703125;
    rest -= n * 0.0004825592041015625;
    rest -= n * 1.26659870147705078125e-6;
    rest -= n * 9.9209350900e-10;
    return Turn(vec4<i32>(n), rest);
}

// 56 bits of a product of 24 bits and 32 bits: (low, high).
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let middle = (a & 0xffffu) * (b >> 16u);
    let cross = (a >> 16u) * (b & 0xffffu);
    let carried = (low >> 16u) + (middle & 0xffffu) + (cross & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (middle >> 16u) + (cross >> 16u) + (carried >> 16u);
    return vec2<u32>((low & 0xffffu) | (carried << 16u), high);
}

// The quadrant, and the rest as a fraction of one, of |x| from 2^16 on (Payne and Hanek): |x| is a
// whole number times a power of two, so of the bits of 2/pi those that make whole turns are left out.
fn large_turn(x: f32) -> vec2<f32> {
    var bits = array<u32, 8>(
        0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    let exponent = (bitcast<u32>(x) >> 23u) & 0xffu;
    let whole = (bitcast<u32>(x) & 0x7fffffu) | 0x800000u;
    let start = min(exponent, 254u) - 120u;
    let first = start / 32u;
    let shift = start % 32u;
    var window = array<u32, 3>();
    for (var i = 0u; i < 3u; i++) {
        // A shift by 32 is undefined.
        window[i] = (bits[first + i] << shift) | ((bits[first + i + 1u] >> 1u) >> (31u - shift));
    }
    let middle = wide_product(whole, window[1]);
    let low = middle.x + wide_product(whole, window[2]).y;
    let high = whole * window[0] + middle.y + select(0u, 1u, low < middle.x);
    // 64 bits of a fraction of four quadrants; half a quadrant more is the next one, less some.
    let fraction = bitcast<i32>((high << 2u) | (low >> 30u));
    let quadrant = (high >> 30u) + select(0u, 1u, fraction < 0);
    let rest = f32(fraction) * 2.3283064365386963e-10 + f32(low << 2u) * 5.421010862427522e-20;
    return vec2<f32>(f32(quadrant), rest);
}

fn turn_of(x: vec4<f32>) -> Turn {
    var turn = small_turn(x);
    let large = abs(x) > vec4<f32>(65536.0);
    if (any(large)) {
        for (var i = 0; i < 4; i++) {
            if (large[i]) {
                let part = large_turn(x[i]) * select(1.0, -1.0, x[i] < 0.0);
                turn.quadrant[i] = i32(part.x);
                turn.rest[i] = part.y * 1.57079633;
            }
        }
    }
    return turn;
}

fn sine_of_quadrant(x: vec4<f32>, quarter_turns: vec4<i32>) -> vec4<f32> {
    let turn = turn_of(x);
    let r = turn.rest;
    let s = r * r;
    let sine = r * (1.0 + s * (-0.16666667 + s * (8.3333333e-3 + s * (-1.9841270e-4 + s * 2.7557319e-6))));
    let cosine = 1.0 + s * (-0.5 + s * (4.1666667e-2 + s * (-1.3888889e-3 + s * (2.4801587e-5 + s * -2.7557319e-7))));
    let quadrant = (turn.quadrant + quarter_turns) & vec4<i32>(3);
    let magnitude = select(sine, cosine, (quadrant & vec4<i32>(1)) != vec4<i32>());
    let result = select(magnitude, -magnitude, (quadrant & vec4<i32>(2)) != vec4<i32>());
    return select(result, nan_of(x), is_nan_vec4f(x) | is_infinite(x));
}

fn precise_sin(x: vec4<f32>) -> vec4<f32> { return sine_of_quadrant(x, vec4<i32>(0)); }
fn precise_cos(x: vec4<f32>) -> vec4<f32> { return sine_of_quadrant(x, vec4<i32>(1)); }
fn precise_tan(x: vec4<f32>) -> vec4<f32> { return keep_nan(x, keep_tiny(x, precise_sin(x) / precise_cos(x))); }

// By multiplying, so that integer results are exact: the built-in pow(9, 5) may be 59048.996.
fn whole_pow(base: vec4<f32>, exponent: vec4<i32>) -> vec4<f32> {
    var result = vec4<f32>(1.0);
    var square = base;
    var rest = abs(exponent);
    while (any(rest != vec4<i32>())) {
        result = select(result, result * square, (rest & vec4<i32>(1)) != vec4<i32>());
        square *= square;
        rest = rest >> vec4<u32>(1u);
    }
    return select(result, 1.0 / result, exponent < vec4<i32>());
}

// pow of a negative base is undefined in WGSL: the sign follows from an integral exponent, and any
// other exponent gives NaN but for infinite bases. So do NaNs, but for the exponent 0 and the base 1;
// 0 has a pole, and an infinite power of -1 is 1.
fn real_pow(base: vec4<f32>, exponent: vec4<f32>) -> vec4<f32> {
    let whole = trunc(exponent) == exponent;
    let few = whole & (abs(exponent) <= vec4<f32>(64.0));
    let factors = vec4<i32>(select(vec4<f32>(), exponent, few));
    let magnitude = select(pow(abs(base), exponent), whole_pow(abs(base), factors), few);
    let odd = whole & (abs(exponent - 2.0 * trunc(exponent * 0.5)) == vec4<f32>(1.0));
    let pole = (base == vec4<f32>()) & (exponent < vec4<f32>());
    let size = select(magnitude, infinity_of(base), pole);
    let negative = (bitcast<vec4<u32>>(base) & vec4<u32>(0x80000000u)) != vec4<u32>();
    let with_sign = select(size, -size, negative & odd);
    let rootless = (base < vec4<f32>()) & !whole & !is_infinite(base) & !is_infinite(exponent);
    let open = rootless | is_nan_vec4f(base) | is_nan_vec4f(exponent);
    let unit = is_infinite(exponent) & (base == vec4<f32>(-1.0));
    let one = (exponent == vec4<f32>()) | (base == vec4<f32>(1.0)) | unit;
    return select(select(with_sign, nan_of(base), open), vec4<f32>(1.0), one);
}

// Integer powers wrap; a negative exponent leaves only 1, -1 and 0.
fn integer_pow(base: vec4<i32>, exponent: vec4<i32>) -> vec4<i32> {
    var result = vec4<i32>(1);
    var square = base;
    var rest = max(exponent, vec4<i32>());
    while (any(rest != vec4<i32>())) {
        result = select(result, result * square, (rest & vec4<i32>(1)) != vec4<i32>());
        square *= square;
        rest = rest >> vec4<u32>(1u);
    }
    let unit = select(vec4<i32>(1), base, (exponent & vec4<i32>(1)) != vec4<i32>());
    let reciprocal = select(vec4<i32>(), unit, abs(base) == vec4<i32>(1));
    return select(result, reciprocal, exponent < vec4<i32>());
}

// torch rounds the exact quotient down: it may have been rounded up to a whole number. By
// infinity everything is left over, and infinity by anything but 0 is NaN.
fn floor_quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let quotient = floor(exact_quotient(a, b));
    let remainder = select(exact_remainder(a, quotient, b), a, is_infinite(b));
    let too_large = (remainder != vec4<f32>()) & ((remainder < vec4<f32>()) != (b < vec4<f32>()));
    let rounded = select(quotient, quotient - 1.0, too_large);
    return select(rounded, nan_of(a), is_infinite(a) & (b != vec4<f32>()));
}

fn integer_floor_quotient(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> {
    let quotient = a / b;
    let inexact = quotient * b != a;
    return select(quotient, quotient - 1, inexact & ((a < vec4<i32>()) != (b < vec4<i32>())));
}

// min and max may drop a NaN, and compilers make them of comparisons. The upper bound wins.
fn bounded(x: vec4<f32>, low: f32, high: f32) -> vec4<f32> {
    return keep_nan(x, min(max(x, vec4<f32>(low)), vec4<f32>(high)));
}

// The sign of a NaN is 0, as in torch.
fn sign_of(x: vec4<f32>) -> vec4<f32> { return select(sign(x), vec4<f32>(), is_nan_vec4f(x)); }

fn elu(x: vec4<f32>, alpha: f32, scale: f32, input_scale: f32) -> vec4<f32> {
    return scale * select(alpha * precise_expm1(x * input_scale), x, x > vec4<f32>());
}

fn softplus(x: vec4<f32>, beta: f32, threshold: f32) -> vec4<f32> {
    let scaled = x * beta;
    let curve = precise_log1p(exp(min(scaled, vec4<f32>(80.0)))) / beta;
    return keep_nan(x, select(curve, x, scaled > vec4<f32>(threshold)));
}

// x * tanh(log(1 + exp(x))), of which the exponentials make a quotient.
fn mish(x: vec4<f32>) -> vec4<f32> {
    let e = exp(min(x, vec4<f32>(20.0)));
    let gate = e * (e + 2.0);
    return keep_nan(x, x * (gate / (gate + 2.0)));
}
