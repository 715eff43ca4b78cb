// Two or three linear layers of one x with quantized weights, many rows and subgroup matrices, as one GEMM: q, k and v,
// or gate and up. linear_q4_split_f16.wgsl has split x; weights are whole words (see lib/matrix/packed_units.wgsl).

// use lib/matrix/subgroup_matrix.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/matrix/f16_scaling.wgsl
// use lib/matrix/subgroup_matrix_tile.wgsl
// use lib/matrix/packed_units.wgsl
// use lib/matrix/joined_columns.wgsl
// use lib/matrix/write_${WRITE}.wgsl

const WHOLE_WORDS = true;

struct Params {
    gemm: Gemm, // n of all, each filled up to whole tiles
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32, // ignored
    matrices: array<vec4<u32>, 3>,
}

@group(0) @binding(0) var<storage, read> split_f16: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> exponents: array<i32>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> second_weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> second_scales: array<StoredQuad>;
@group(0) @binding(6) var<storage, read> third_weights: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> third_scales: array<StoredQuad>;
@group(0) @binding(8) var<storage, read_write> output: array<Out>;
@group(0) @binding(9) var<uniform> params: Params;

// A whole subgroup reads of one matrix: 16 columns.
fn fetch_b(column: u32, k: u32) -> Packed {
    let place = joined_column(column);
    let start = unit_start(k);
    let byte = unit_byte(place.row, start);
    let unit = byte / 16u;
    let word = byte / 4u % 4u;
    let next = (byte + 4u) / 16u; // of bytes; four bits take one word
    let next_word = (byte + 4u) / 4u % 4u;
    let scale = start / GROUP_SIZE * params.matrices[place.matrix].z + place.row;
    var packed: Packed;
    if (place.matrix == 0u) {
        packed.words.x = weights[unit][word];
        packed.scale = f32(scales[scale / 4u][scale % 4u]);
        if (FORMAT == BYTES) {
            packed.words.y = weights[next][next_word];
        }
    } else if (place.matrix == 1u) {
        packed.words.x = second_weights[unit][word];
        packed.scale = f32(second_scales[scale / 4u][scale % 4u]);
        if (FORMAT == BYTES) {
            packed.words.y = second_weights[next][next_word];
        }
    } else {
        packed.words.x = third_weights[unit][word];
        packed.scale = f32(third_scales[scale / 4u][scale % 4u]);
        if (FORMAT == BYTES) {
            packed.words.y = third_weights[next][next_word];
        }
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
