// Exact remainders for quotients of any size: in integers, bit by bit. Needs lib/nan.wgsl.

// The magnitude of x as (integer, power of two), the integer below 2^24.
fn parts_of(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let exponent = bits >> 23u;
    return select(vec2<u32>((bits & 0x7fffffu) | 0x800000u, exponent - 1u), vec2<u32>(bits, 0u), exponent == 0u);
}

fn float_of_parts(whole: u32, power: u32) -> f32 {
    if (whole == 0u) {
        return 0.0;
    }
    let shift = min(countLeadingZeros(whole) - 8u, power);
    let number = whole << shift;
    return bitcast<f32>(select(number, (number & 0x7fffffu) | ((power - shift + 1u) << 23u), number >= 0x800000u));
}

// With the sign of a, as fmod. By 0, of infinity, and of a NaN: NaN.
fn remainder_of(a: f32, b: f32) -> f32 {
    let size = bitcast<u32>(a) & 0x7fffffffu;
    let divisor = bitcast<u32>(b) & 0x7fffffffu;
    if (size >= 0x7f800000u || divisor == 0u || divisor > 0x7f800000u) {
        return bitcast<f32>(size | 0x7fc00000u);
    }
    if (size < divisor) {
        return a;
    }
    let x = parts_of(a);
    let y = parts_of(b);
    var rest = x.x % y.x;
    var steps = x.y - y.y;
    while (steps > 0u && rest > 0u) {
        let some = min(steps, 8u);
        rest = (rest << some) % y.x;
        steps -= some;
    }
    let sign = bitcast<u32>(a) & 0x80000000u;
    return bitcast<f32>(bitcast<u32>(float_of_parts(rest, y.y)) | sign);
}

fn remainders_of(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(remainder_of(a.x, b.x), remainder_of(a.y, b.y), remainder_of(a.z, b.z), remainder_of(a.w, b.w));
}

// With the sign of b, as Python's %.
fn modulo_of(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let rest = remainders_of(a, b);
    let sign = bitcast<vec4<u32>>(b) & vec4<u32>(0x80000000u);
    let none = (bitcast<vec4<u32>>(rest) & vec4<u32>(0x7fffffffu)) == vec4<u32>();
    let zero = bitcast<vec4<f32>>(sign);
    let other = (bitcast<vec4<u32>>(rest) & vec4<u32>(0x80000000u)) != sign;
    return select(select(rest, rest + b, other & !is_nan_vec4f(rest)), zero, none);
}

fn integer_modulo_of(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> {
    let rest = a % b;
    return select(rest, rest + b, (rest != vec4<i32>()) & ((rest < vec4<i32>()) != (b < vec4<i32>())));
}
