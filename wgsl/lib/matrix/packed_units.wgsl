// Packed weights on their way to the f16 of lib/matrix/subgroup_matrix_tile.wgsl, eight values along k at a time. Goes with
// lib/gemm/q4_weights.wgsl; the kernel declares WHOLE_WORDS: eight values that start at a multiple of eight lie in
// whole words, and share a scale.

alias BRaw = Packed;

// Eight values along k: the words that have them and their scale, or unpacked at once if they are not
// whole words.
struct Packed {
    words: vec2<u32>,
    scale: f32,
    first: vec4<f32>,
    second: vec4<f32>,
}

// Where a unit starts along k, the last one instead of those past it, and the byte of its first value.
fn unit_start(k: u32) -> u32 { return min(k, (params.inner - 1u) / 8u * 8u); }
fn unit_byte(row: u32, start: u32) -> u32 {
    return row * params.row_bytes + select(start / 2u, start, FORMAT == BYTES);
}

// The values i and i + 4, exact. A small integer in the mantissa of 2^10 is the f16 1024 + integer.
fn codes_of(words: vec2<u32>, i: u32) -> F16Pair {
    if (FORMAT == BYTES) {
        let bytes = (words >> vec2<u32>(8u * i)) & vec2<u32>(0xffu);
        return f16_subtract(f16_pair_of(((bytes.x | (bytes.y << 16u)) ^ 0x00800080u) | 0x64006400u), 1152.0);
    }
    let shift = select(4u * i, 4u * (i ^ 1u), FORMAT == HIGH_FIRST);
    return f16_subtract(f16_pair_of(((words.x >> shift) & 0x000f000fu) | 0x64006400u), 1032.0);
}

// Codes times the sum of two f16 that is their scale: the product's f16, and the rest as another.
fn scaled_codes(codes: F16Pair, high: F16Pair, low: F16Pair) -> vec2<u32> {
    let product = f16_multiply(codes, high);
    let rest = f16_fma(codes, low, f16_fma(codes, high, f16_negate(product)));
    return vec2<u32>(f16_pair_bits(product), f16_pair_bits(rest));
}

fn b_unit(packed: Packed, power: f32) -> SplitUnit {
    if (!WHOLE_WORDS) {
        return split_unit(packed.first * power, packed.second * power);
    }
    let scale = packed.scale * power;
    let kept = leading_bits(scale);
    let high = f16_splat(kept);
    let low = f16_splat(scale - kept);
    let v0 = scaled_codes(codes_of(packed.words, 0u), high, low);
    let v1 = scaled_codes(codes_of(packed.words, 1u), high, low);
    let v2 = scaled_codes(codes_of(packed.words, 2u), high, low);
    let v3 = scaled_codes(codes_of(packed.words, 3u), high, low);
    return SplitUnit(vec4<u32>(v0.x, v1.x, v2.x, v3.x), vec4<u32>(v0.y, v1.y, v2.y, v3.y));
}
