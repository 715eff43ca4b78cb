// Linear layers with quantized weights, many rows and subgroup matrices: weights become f16 on their way into
// shared memory; linear_q4_split_f16.wgsl has split x.

// use lib/matrix/subgroup_matrix.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/plain_epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/matrix/f16_scaling.wgsl
// use lib/matrix/subgroup_matrix_tile.wgsl
// use lib/matrix/write_sums.wgsl
// use lib/matrix/packed_units.wgsl

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
    let start = unit_start(k);
    packed.scale = scale_at(row, start);
    let byte = unit_byte(row, start);
    packed.words.x = word_at(byte);
    if (FORMAT == BYTES) {
        packed.words.y = word_at(byte + 4u);
    }
    return packed;
}

@compute @workgroup_size(THREADS) ${SUBGROUP_SIZE}
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
