// Linear layers with quantized weights, many rows and subgroup matrices: weights become f16 on their way into
// shared memory; linear_q4_split_f16.wgsl has split x.

// use lib/gemm/subgroup_matrix.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/plain_epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/f16_scaling.wgsl
// use lib/gemm/subgroup_matrix_tile.wgsl

alias BRaw = Packed;
// Eight values that start at a multiple of eight lie in whole words, and share a scale.
override WHOLE_WORDS: bool;

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
}

@group(0) @binding(0) var<storage, read> split_f16: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> exponents: array<i32>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> addend: array<Stored>;
@group(0) @binding(5) var<storage, read_write> output: array<Out>;
@group(0) @binding(6) var<uniform> params: Params;

// Eight values along k: the words that have them and their scale, or unpacked at once if they are not
// whole words.
struct Packed {
    words: vec2<u32>,
    scale: f32,
    first: vec4<f32>,
    second: vec4<f32>,
}

fn quad_of(row: u32, k: u32) -> vec4<f32> {
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (k + i < params.inner) {
            values[i] = weight_at(row, k + i);
        }
    }
    return values;
}

// Columns past the end repeat the last one, as rows do, and so do values past the last k, where x is zero.
fn fetch_b(column: u32, k: u32) -> Packed {
    var packed: Packed;
    let row = min(column, params.gemm.n - 1u);
    if (!WHOLE_WORDS) {
        packed.first = quad_of(row, k);
        packed.second = quad_of(row, k + 4u);
        return packed;
    }
    let start = min(k, (params.inner - 1u) / 8u * 8u);
    packed.scale = scale_at(row, start);
    let byte = row * params.row_bytes + select(start / 2u, start, FORMAT == BYTES);
    packed.words.x = word_at(byte);
    if (FORMAT == BYTES) {
        packed.words.y = word_at(byte + 4u);
    }
    return packed;
}

// The values i and i + 4, exact. A small integer in the mantissa of 2^10 is the f16 1024 + integer.
fn codes_of(words: vec2<u32>, i: u32) -> Halves {
    if (FORMAT == BYTES) {
        let bytes = (words >> vec2<u32>(8u * i)) & vec2<u32>(0xffu);
        return less(halves_of(((bytes.x | (bytes.y << 16u)) ^ 0x00800080u) | 0x64006400u), 1152.0);
    }
    let shift = select(4u * i, 4u * (i ^ 1u), FORMAT == HIGH_FIRST);
    return less(halves_of(((words.x >> shift) & 0x000f000fu) | 0x64006400u), 1032.0);
}

// Codes times the sum of two f16 that is their scale: the product's f16, and the rest as another.
fn scaled_codes(codes: Halves, high: Halves, low: Halves) -> vec2<u32> {
    let product = product_of(codes, high);
    let rest = product_plus(codes, low, product_plus(codes, high, negative(product)));
    return vec2<u32>(bits_of(product), bits_of(rest));
}

fn b_unit(packed: Packed, power: f32) -> Unit {
    if (!WHOLE_WORDS) {
        return unit_of(packed.first * power, packed.second * power);
    }
    let scale = packed.scale * power;
    let kept = leading_bits(scale);
    let high = both_halves(kept);
    let low = both_halves(scale - kept);
    let v0 = scaled_codes(codes_of(packed.words, 0u), high, low);
    let v1 = scaled_codes(codes_of(packed.words, 1u), high, low);
    let v2 = scaled_codes(codes_of(packed.words, 2u), high, low);
    let v3 = scaled_codes(codes_of(packed.words, 3u), high, low);
    return Unit(vec4<u32>(v0.x, v1.x, v2.x, v3.x), vec4<u32>(v0.y, v1.y, v2.y, v3.y));
}

@compute @workgroup_size(THREADS)
fn main(
    place: Place,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, A_ROWS, B_COLUMNS);
    if (part.exists) {
        multiply_matrices(part, place);
    }
}
