// Rows of floats as int8: codes from -127 to 127, times a scale per row. Goes with lib/quads.wgsl.
// engine/ops/attention/cache_packing.py has the same in NumPy.
//
// The scale has 17 significant bits and comes from integers, so that a code times the scale is exact, and all GPUs find the
// same scales and codes.

alias CacheUnit = u32; // the step of a row, or four of its numbers

const NAN_SCALE = 0x7fc00000u; // NaN: the row has an infinity or NaN

fn dequantize_int8(word: u32, step_bits: u32) -> vec4<f32> {
    return bitcast<f32>(step_bits) * vec4<f32>(signed_bytes_of(word));
}

// The size of the largest element, as bits: they are in the order of the sizes.
fn quad_absmax(value: vec4<f32>) -> u32 {
    let size = bitcast<vec4<u32>>(value) & vec4<u32>(0x7fffffffu);
    return max(max(size.x, size.y), max(size.z, size.w));
}

// The step of a row, as bits: its peak / 127; 0 for a row of zeros and of numbers below 2^-87.
fn row_scale_bits(peak: u32) -> u32 {
    let exponent = peak >> 23u;
    if (exponent == 255u) {
        return NAN_SCALE;
    }
    if (exponent < 40u) {
        return 0u;
    }
    let part = (((peak & 0x7fffffu) | 0x800000u) * 128u + 63u) / 127u; // 24 or 25 bits
    let dropped = select(7u, 8u, part >= 0x1000000u);
    let kept = (part + (1u << (dropped - 1u))) >> dropped;
    let power = bitcast<f32>((exponent + dropped - 30u) << 23u);
    return bitcast<u32>(f32(kept) * power);
}

// The numbers nearest to a quad's elements, ties to even. A quotient may be off by one, which the exact rest tells.
fn quantize_int8(value: vec4<f32>, step_bits: u32) -> u32 {
    if (step_bits == 0u || step_bits == NAN_SCALE) {
        return 0u;
    }
    let step = bitcast<f32>(step_bits);
    var number = clamp(round(value / step), vec4<f32>(-127.0), vec4<f32>(127.0));
    let rest = 2.0 * (value - number * step);
    let odd = (vec4<i32>(number) & vec4<i32>(1)) != vec4<i32>();
    let more = (rest > vec4<f32>(step)) | (odd & (rest == vec4<f32>(step)));
    let less = (rest < vec4<f32>(-step)) | (odd & (rest == vec4<f32>(-step)));
    number += select(vec4<f32>(), vec4<f32>(1.0), more) - select(vec4<f32>(), vec4<f32>(1.0), less);
    number = clamp(number, vec4<f32>(-127.0), vec4<f32>(127.0));
    return word_of(bitcast<vec4<u32>>(vec4<i32>(number)));
}
