// Linear layers with quantized weights, many rows and subgroup matrices: weights are split into f16 on
// their way into shared memory; linear_q4_split_f16.wgsl has split x.

// use lib/gemm/subgroup_matrix.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/f16_scaling.wgsl
// use lib/gemm/subgroup_matrix_tile.wgsl

alias BRaw = Packed;
// A row is whole units of 16 bytes, each of which shares a scale.
override WIDE: bool;

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

// Up to four quads of one row of weights: packed with a scale each, or unpacked at once if they are not
// whole words.
struct Packed {
    words: vec4<u32>,
    scale: vec4<f32>,
    block: Block,
}

fn word_from(row: u32, k: u32) -> u32 {
    let byte = row * params.row_bytes + select(k / 2u, k, FORMAT == BYTES);
    return word_at(byte) >> (byte % 4u * 8u);
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

// Wide weights: no word is read twice, and all share one scale.
fn fetch_wide(column: u32, k: u32) -> Packed {
    var packed: Packed;
    let byte = column * params.row_bytes + select(k / 2u, k, FORMAT == BYTES);
    packed.scale = vec4<f32>(scale_at(column, k));
    if (FORMAT == BYTES && B_QUADS == 4u) {
        packed.words = weights[byte / 16u];
    } else if (FORMAT == BYTES) {
        packed.words = vec4<u32>(word_at(byte), word_at(byte + 4u), 0u, 0u);
    } else if (B_QUADS == 4u) {
        let pair = vec2<u32>(word_at(byte), word_at(byte + 4u));
        packed.words = vec4<u32>(pair.x, pair.x >> 16u, pair.y, pair.y >> 16u);
    } else {
        let word = word_at(byte);
        packed.words = vec4<u32>(word, word >> 16u, 0u, 0u);
    }
    return packed;
}

fn fetch_aligned(column: u32, k: u32) -> Packed {
    var packed: Packed;
    packed.words.x = word_from(column, k);
    packed.scale.x = scale_at(column, k);
    if (k + 4u < params.inner) {
        packed.words.y = word_from(column, k + 4u);
        packed.scale.y = scale_at(column, k + 4u);
    }
    if (B_QUADS == 4u && k + 8u < params.inner) {
        packed.words.z = word_from(column, k + 8u);
        packed.scale.z = scale_at(column, k + 8u);
    }
    if (B_QUADS == 4u && k + 12u < params.inner) {
        packed.words.w = word_from(column, k + 12u);
        packed.scale.w = scale_at(column, k + 12u);
    }
    return packed;
}

fn fetch_b(column: u32, k: u32) -> Packed {
    var packed: Packed;
    if (column >= params.gemm.n || k >= params.inner) {
        return packed;
    }
    if (WIDE) {
        return fetch_wide(column, k);
    }
    if (WEIGHTS_ALIGNED) {
        return fetch_aligned(column, k);
    }
    packed.block.k0 = quad_of(column, k);
    packed.block.k1 = quad_of(column, k + 4u);
    if (B_QUADS == 4u) {
        packed.block.k2 = quad_of(column, k + 8u);
        packed.block.k3 = quad_of(column, k + 12u);
    }
    return packed;
}

// The first four values of a word.
fn values_of(word: u32) -> vec4<f32> {
    if (FORMAT == BYTES) {
        let bytes = (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu);
        return float_of(bytes ^ vec4<u32>(0x80u)) - 8388736.0;
    }
    let shifts = select(vec4<u32>(0u, 4u, 8u, 12u), vec4<u32>(4u, 0u, 12u, 8u), FORMAT == HIGH_FIRST);
    return float_of((vec4<u32>(word) >> shifts) & vec4<u32>(0xfu)) - 8388616.0;
}

fn b_pairs(packed: Packed, scale: f32) -> Pairs {
    var block = packed.block;
    if (WEIGHTS_ALIGNED) {
        block = Block(
            values_of(packed.words.x) * packed.scale.x,
            values_of(packed.words.y) * packed.scale.y,
            values_of(packed.words.z) * packed.scale.z,
            values_of(packed.words.w) * packed.scale.w,
        );
    }
    return Pairs(
        pair_of(block.k0 * scale),
        pair_of(block.k1 * scale),
        pair_of(block.k2 * scale),
        pair_of(block.k3 * scale),
    );
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
