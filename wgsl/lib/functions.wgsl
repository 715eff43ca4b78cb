// Elementary functions to a few units in the last place, near 0 too: WGSL's own may be off by 2^-11,
// and leave infinities and NaNs undefined. Polynomials are minimax fits. Needs lib/nan.wgsl.

fn nan_of(x: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) | vec4<u32>(0x7fc00000u)); }

fn infinity_of(x: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>((bitcast<vec4<u32>>(x) & vec4<u32>()) | vec4<u32>(0x7f800000u));
}

fn is_infinite(x: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) == vec4<u32>(0x7f800000u);
}

fn is_negative(x: vec4<f32>) -> vec4<bool> { return bitcast<vec4<i32>>(x) < vec4<i32>(); }

fn with_sign_of(size: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
    let sign = bitcast<vec4<u32>>(x) & vec4<u32>(0x80000000u);
    return bitcast<vec4<f32>>((bitcast<vec4<u32>>(size) & vec4<u32>(0x7fffffffu)) | sign);
}

// For odd functions that equal x below 2^-32: -0.0 and subnormal numbers stay unchanged.
fn keep_tiny(x: vec4<f32>, result: vec4<f32>) -> vec4<f32> {
    return select(result, x, (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) < vec4<u32>(0x2f800000u));
}

fn nan_where(wrong: vec4<bool>, x: vec4<f32>, result: vec4<f32>) -> vec4<f32> {
    return select(result, nan_of(x), wrong | is_nan_vec4f(x));
}

// exp(x) = 2^n * (1 + less), |less| at most sqrt(2) - 1
struct Power {
    n: vec4<i32>,
    less: vec4<f32>,
}

fn power_of(x: vec4<f32>) -> Power {
    let n = round(x * 1.44269504);
    // ln 2 in two parts, so that the first product is exact.
    let r = (x - n * 0.693359375) + n * 2.1219444e-4;
    let q = 0.5 + r * (0.166666665 + r * (0.0416664655 + r * (0.00833336073 + r * (0.00139336044 + r * 1.98577977e-4))));
    return Power(vec4<i32>(n), r + r * r * q);
}

fn two_to(n: vec4<i32>) -> vec4<f32> { return bitcast<vec4<f32>>((n + vec4<i32>(127)) << vec4<u32>(23u)); }

// Half of exp(x), which may exceed what a float32 can be while its half does not: the power goes to
// the exponent's bits, since compilers may multiply factors first and find them infinite.
fn half_exp(x: vec4<f32>) -> vec4<f32> {
    let power = power_of(clamp(x, vec4<f32>(-80.0), vec4<f32>(90.0)));
    let bits = bitcast<vec4<i32>>(1.0 + power.less) + ((power.n - vec4<i32>(1)) << vec4<u32>(23u));
    return bitcast<vec4<f32>>(min(bitcast<vec4<u32>>(bits), vec4<u32>(0x7f800000u)));
}

fn precise_expm1(x: vec4<f32>) -> vec4<f32> {
    let power = power_of(clamp(x, vec4<f32>(-60.0), vec4<f32>(89.0)));
    let half = two_to(power.n - vec4<i32>(1));
    let result = 2.0 * (half * power.less + (half - 0.5));
    return nan_where(vec4<bool>(), x, keep_tiny(x, result));
}

// From 20 on the smaller exponential is negligible.
fn precise_cosh(x: vec4<f32>) -> vec4<f32> {
    let half = half_exp(abs(x));
    return nan_where(vec4<bool>(), x, select(half + 0.25 / half, half, abs(x) > vec4<f32>(20.0)));
}

fn precise_sinh(x: vec4<f32>) -> vec4<f32> {
    let e = precise_expm1(min(abs(x), vec4<f32>(21.0)));
    let size = select(0.5 * (e + e / (e + 1.0)), half_exp(abs(x)), abs(x) > vec4<f32>(20.0));
    return nan_where(vec4<bool>(), x, keep_tiny(x, with_sign_of(size, x)));
}

// log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1, by way of 2 * atanh(s): f itself is exact, and
// what is taken off it small.
fn log_near_one(f: vec4<f32>) -> vec4<f32> {
    let s = f / (2.0 + f);
    let z = s * s;
    let rest = z * (0.666666666 + z * (0.400001003 + z * (0.285523043 + z * 0.23301494)));
    return f - s * (f - rest);
}

// x = 2^exponent * (1 + f), with log(1 + f); of the bits, so that no GPU flushes small numbers.
struct Logarithm {
    exponent: vec4<f32>,
    rest: vec4<f32>,
}

fn logarithm_of(x: vec4<f32>) -> Logarithm {
    let bits = bitcast<vec4<u32>>(x);
    let shift = select(vec4<u32>(), countLeadingZeros(bits) - vec4<u32>(8u), bits < vec4<u32>(0x800000u));
    let normal = bitcast<vec4<i32>>(bits << (shift & vec4<u32>(31u)));
    let exponent = (normal - vec4<i32>(0x3f3504f3)) >> vec4<u32>(23u);
    let f = bitcast<vec4<f32>>(normal - (exponent << vec4<u32>(23u))) - 1.0;
    return Logarithm(vec4<f32>(exponent - vec4<i32>(shift)), log_near_one(f));
}

fn with_poles(x: vec4<f32>, result: vec4<f32>) -> vec4<f32> {
    let zero = (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) == vec4<u32>();
    let bounded = select(select(result, infinity_of(x), is_infinite(x)), -infinity_of(x), zero);
    return nan_where(is_negative(x) & !zero, x, bounded);
}

fn precise_log(x: vec4<f32>) -> vec4<f32> {
    let l = logarithm_of(x);
    return with_poles(x, l.exponent * 0.693359375 + (l.rest - l.exponent * 2.1219444e-4));
}

fn precise_log2(x: vec4<f32>) -> vec4<f32> {
    let l = logarithm_of(x);
    return with_poles(x, l.exponent + l.rest * 1.44269504);
}

fn precise_log10(x: vec4<f32>) -> vec4<f32> {
    let l = logarithm_of(x);
    return with_poles(x, l.exponent * 0.301025390625 + (l.rest * 0.434294482 + l.exponent * 4.60503898e-6));
}

fn precise_log1p(x: vec4<f32>) -> vec4<f32> {
    let near = (x > vec4<f32>(-0.2928)) & (x < vec4<f32>(0.4142));
    let result = select(precise_log(1.0 + x), log_near_one(select(vec4<f32>(), x, near)), near);
    return nan_where(vec4<bool>(), x, keep_tiny(x, result));
}

// Above 1e9 a square adds nothing, and above 1e19 it overflows.
fn precise_asinh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let s = a * a;
    let near = precise_log1p(a + s / (1.0 + sqrt(1.0 + s)));
    let size = select(near, precise_log(a) + 0.693147181, a > vec4<f32>(1e9));
    return nan_where(vec4<bool>(), x, keep_tiny(x, with_sign_of(size, x)));
}

fn precise_acosh(x: vec4<f32>) -> vec4<f32> {
    let t = x - 1.0;
    let near = precise_log1p(t + sqrt(t * (t + 2.0)));
    return nan_where(x < vec4<f32>(1.0), x, select(near, precise_log(x) + 0.693147181, x > vec4<f32>(1e9)));
}

fn precise_atanh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let inside = 0.5 * precise_log1p(2.0 * a / (1.0 - a));
    let size = select(inside, infinity_of(x), a == vec4<f32>(1.0));
    return nan_where(a > vec4<f32>(1.0), x, keep_tiny(x, with_sign_of(size, x)));
}

// Up to tan(pi / 8)
fn small_atan(z: vec4<f32>) -> vec4<f32> {
    let s = z * z;
    return z + z * s * (-0.333333333 + s * (0.199999776 + s * (-0.142841662 + s * (0.110716068 + s * (-0.0862627328 + s * 0.0505183664)))));
}

fn precise_atan(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let far = a > vec4<f32>(2.41421356);
    let middle = a > vec4<f32>(0.414213562);
    let reduced = select(select(a, (a - 1.0) / (a + 1.0), middle), -1.0 / a, far);
    let turned = select(select(vec4<f32>(), vec4<f32>(0.785398163), middle), vec4<f32>(1.57079633), far);
    return nan_where(vec4<bool>(), x, keep_tiny(x, with_sign_of(turned + small_atan(reduced), x)));
}

fn precise_atan2(y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
    let both = is_infinite(x) & is_infinite(y);
    let short = min(abs(x), abs(y));
    let long = max(abs(x), abs(y));
    let ratio = select(select(short / long, vec4<f32>(), long == vec4<f32>()), vec4<f32>(1.0), both);
    let first = precise_atan(ratio);
    let quarter = select(first, 1.57079633 - first, abs(y) > abs(x));
    let half = select(quarter, 3.14159265 - quarter, is_negative(x));
    return nan_where(is_nan_vec4f(x), y, with_sign_of(half, y));
}

// asin(|x|), or half of acos(|x|) for the upper half.
struct Arc {
    upper: vec4<bool>,
    angle: vec4<f32>,
}

fn arc_of(x: vec4<f32>) -> Arc {
    let a = abs(x);
    let upper = a > vec4<f32>(0.5);
    let s = select(a * a, 0.5 * (1.0 - a), upper);
    let r = select(a, sqrt(max(s, vec4<f32>())), upper);
    let q = 0.166666663 + s * (0.0750009852 + s * (0.0445981083 + s * (0.0311153121 + s * (0.0170816904 + s * 0.033799655))));
    return Arc(upper, r + r * s * q);
}

fn precise_asin(x: vec4<f32>) -> vec4<f32> {
    let arc = arc_of(x);
    let size = select(arc.angle, 1.57079633 - 2.0 * arc.angle, arc.upper);
    return nan_where(abs(x) > vec4<f32>(1.0), x, keep_tiny(x, with_sign_of(size, x)));
}

fn precise_acos(x: vec4<f32>) -> vec4<f32> {
    let arc = arc_of(x);
    let upper = select(2.0 * arc.angle, 3.14159265 - 2.0 * arc.angle, is_negative(x));
    let result = select(1.57079633 - with_sign_of(arc.angle, x), upper, arc.upper);
    return nan_where(abs(x) > vec4<f32>(1.0), x, result);
}

// Up to 1 a polynomial; then 1 - erfc(x), which is at most a sixth of it, and from 4 on nothing.
fn erf(x: vec4<f32>) -> vec4<f32> {
    let a = min(abs(x), vec4<f32>(4.1));
    let s = a * a;
    let near = a * (1.12837917 + s * (-0.376126258 + s * (0.112835851 + s * (-0.0268538119 + s * (0.00518832756 + s * (-8.01019252e-4 + s * 7.85385772e-5))))));
    let t = 1.0 / (1.0 + a);
    let p = -1.82935506e-4 + t * (0.569055015 + t * (0.511512055 + t * (0.579299914 + t * (-1.18674524 + t * 0.547845697))));
    return nan_where(vec4<bool>(), x, with_sign_of(select(1.0 - p * exp(-s), near, a < vec4<f32>(1.0)), x));
}
