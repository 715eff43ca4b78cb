// Splits numbers of any size into f16: a row or a column is divided by a power of two, so that its largest
// number is near 2^14, and each number is the sum of two f16, the second about 2^-11 of the first. The part
// of a product of two such sums that is left out is about 2^-22 of it. Goes with lib/matrix/subgroup_matrix.wgsl.

const LARGEST = 14u; // the power of two that the largest number of a row comes to
const NOT_FINITE = 0x100000; // instead of an exponent

// 2^exponent, for exponents of -126 to 127.
fn power_of_two(exponent: i32) -> f32 { return bitcast<f32>(u32(exponent + 127) << 23u); }

// The exponent to divide by, so that the largest number, given by its bits without the sign, comes to at
// least 2^`power`, and less than twice that. Numbers below 2^-112 at that power come to less.
fn exponent_of(largest: u32, power: u32) -> i32 {
    let biased = largest >> 23u;
    if (biased == 255u) {
        return NOT_FINITE;
    }
    return i32(max(biased, power)) - 127 - i32(power);
}

fn absmax_bits(values: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(values) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// Multiplies in two steps, neither of which overflows f32 unless the result does.
fn times_power(value: f32, exponent: i32) -> f32 {
    if (exponent >= NOT_FINITE / 2) {
        return bitcast<f32>(0x7fc00000u | u32(exponent)); // NaN, not as a constant, which WGSL forbids
    }
    let half = exponent / 2;
    return value * power_of_two(half) * power_of_two(exponent - half);
}

// A number rounded to the bits of an f16, by its own bits: drivers optimize a conversion to f16 and back away.
fn leading_bits(value: f32) -> f32 { return bitcast<f32>((bitcast<u32>(value) + 0x1000u) & 0xffffe000u); }

// The first f16 of four numbers, and the second ones.
fn split_quad(values: vec4<f32>) -> vec4<u32> {
    let kept = vec4<f32>(
        leading_bits(values.x),
        leading_bits(values.y),
        leading_bits(values.z),
        leading_bits(values.w),
    );
    let high = to_f16(kept);
    let low = to_f16(values - kept);
    return vec4<u32>(bitcast<vec2<u32>>(high), bitcast<vec2<u32>>(low));
}

// Eight numbers along k as f16, in the order 0, 4, 1, 5, 2, 6, 3, 7: that of the nibbles of a word, taken in pairs
// with 16 bits between them. Both operands have it, so sums over k are the same.
struct SplitUnit {
    high: vec4<u32>,
    low: vec4<u32>,
}

fn split_unit(first: vec4<f32>, second: vec4<f32>) -> SplitUnit {
    let even = split_quad(vec4<f32>(first.x, second.x, first.y, second.y));
    let odd = split_quad(vec4<f32>(first.z, second.z, first.w, second.w));
    return SplitUnit(vec4<u32>(even.xy, odd.xy), vec4<u32>(even.zw, odd.zw));
}
