// Linear layers with quantized weights, many rows at once, by subgroup matrices: weights become half floats
// on their way into shared memory, two for each, and x has become such before (linear_q4_halves.wgsl).

// use lib/matrices.wgsl
// use lib/product.wgsl
// use lib/addend.wgsl
// use lib/weights.wgsl
// use lib/powers.wgsl
// use lib/matrix_tiles.wgsl

alias BRaw = Packed;

struct Params {
    product: Product,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
}

@group(0) @binding(0) var<storage, read> halves: array<Halves>;
@group(0) @binding(1) var<storage, read> exponents: array<i32>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> addend: array<Stored>;
@group(0) @binding(5) var<storage, read_write> output: array<Out>;
@group(0) @binding(6) var<uniform> params: Params;

// Up to four quads of one row of weights: packed and with a scale each, or, where that does not go by whole
// words, made floats at once.
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

fn fetch_b(column: u32, k: u32) -> Packed {
    var packed: Packed;
    if (column >= params.product.n) {
        return packed;
    }
    if (!WEIGHTS_ALIGNED) {
        packed.block.k0 = quad_of(column, k);
        packed.block.k1 = quad_of(column, k + 4u);
        if (B_QUADS == 4u) {
            packed.block.k2 = quad_of(column, k + 8u);
            packed.block.k3 = quad_of(column, k + 12u);
        }
        return packed;
    }
    for (var i = 0u; i < B_QUADS; i++) {
        let at = k + 4u * i;
        if (at < params.inner) {
            packed.words[i] = word_from(column, at);
            packed.scale[i] = scale_at(column, at);
        }
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

fn b_quad(packed: Packed, i: u32) -> vec4<f32> {
    if (WEIGHTS_ALIGNED) {
        return values_of(packed.words[i]) * packed.scale[i];
    }
    if (i < 2u) {
        return select(packed.block.k0, packed.block.k1, i == 1u);
    }
    return select(packed.block.k2, packed.block.k3, i == 3u);
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
