// Numbers of any size as half floats: a row or a column is divided by a power of two, so that its largest
// number is near 2^14, and each number is the sum of two half floats, the second about 2^-11 of the first.
// What is left out of a product of two such sums is about 2^-22 of it. Goes with lib/gemm/subgroup_matrix.wgsl.

const LARGEST = 14u; // the power of two that the largest number of a row comes to
const NOT_FINITE = 0x100000; // instead of an exponent

// 2^exponent, for exponents of -126 to 127.
fn power_of(exponent: i32) -> f32 { return bitcast<f32>(u32(exponent + 127) << 23u); }

// Which power of two to divide by, that numbers whose largest has these bits (without its sign) come to
// 2^`power` and more, below its double. Numbers that stay below 2^-112 at such a power come to less.
fn exponent_of(largest: u32, power: u32) -> i32 {
    let biased = largest >> 23u;
    if (biased == 255u) {
        return NOT_FINITE;
    }
    return i32(max(biased, power)) - 127 - i32(power);
}

fn size_of(values: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(values) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// In two steps, neither of which goes beyond what f32 holds unless the result does.
fn times_power(value: f32, exponent: i32) -> f32 {
    if (exponent >= NOT_FINITE / 2) {
        return bitcast<f32>(0x7fc00000u | u32(exponent)); // NaN, not as a constant, which WGSL forbids
    }
    let half = exponent / 2;
    return value * power_of(half) * power_of(exponent - half);
}

// The first halves of four numbers, and the second ones.
fn pair_of(values: vec4<f32>) -> vec4<u32> {
    // Rounded by its bits, not as a half float made a float again: drivers take that for the number itself.
    let kept = bitcast<vec4<f32>>((bitcast<vec4<u32>>(values) + vec4<u32>(0x1000u)) & vec4<u32>(0xffffe000u));
    let high = to_f16(kept);
    let low = to_f16(values - kept);
    return vec4<u32>(bitcast<vec2<u32>>(high), bitcast<vec2<u32>>(low));
}
