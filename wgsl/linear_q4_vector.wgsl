// Linear layers with quantized weights for few rows: as fast as the weights can be read.

// use lib/quads.wgsl
// use lib/product.wgsl
// use lib/weights.wgsl
// use lib/activations.wgsl
// use lib/slices.wgsl

// Rows of weights are whole vec4<u32>s, and all values in one belong to one group.
override WIDE: bool;

struct Params {
    product: Product,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> row_scales: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> row_zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> addend: array<f32>;
@group(0) @binding(6) var<storage, read_write> output: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

// Four halves of bytes, of four columns each, without a shift: each half stays where it is, below a
// one of such a worth that the half counts 0 to 15.
fn halves_of(words: vec4<u32>) -> Block {
    let first = bitcast<vec4<f32>>((words & vec4<u32>(0xfu)) | vec4<u32>(0x4b000000u)) - 8388616.0;
    let second = bitcast<vec4<f32>>((words & vec4<u32>(0xf0u)) | vec4<u32>(0x49000000u)) - 524296.0;
    let third = bitcast<vec4<f32>>((words & vec4<u32>(0xf00u)) | vec4<u32>(0x47000000u)) - 32776.0;
    let fourth = bitcast<vec4<f32>>((words & vec4<u32>(0xf000u)) | vec4<u32>(0x45000000u)) - 2056.0;
    if (FORMAT == HIGH_FIRST) {
        return Block(second, first, fourth, third);
    }
    return Block(first, second, third, fourth);
}

fn unscaled_block(words: vec4<u32>) -> Block {
    if (FORMAT == BYTES) {
        return Block(value_of(words, 0u), value_of(words, 1u), value_of(words, 2u), value_of(words, 3u));
    }
    return halves_of(words);
}

fn add_block(sums: ptr<function, Sums>, row: u32, k: u32, block: Block) {
    for (var i = 0u; i < ROWS; i++) {
        let values = x_quad(row + i, k);
        (*sums)[i] += values.x * block.k0 + values.y * block.k1 + values.z * block.k2 + values.w * block.k3;
    }
}

// Adds a vec4<u32> of each of four columns, `wide` being its place in the row.
fn add_wide(sums: ptr<function, Sums>, row: u32, column: u32, wide: u32) {
    let per_word = select(8u, 4u, FORMAT == BYTES);
    let first = wide * 4u * per_word;
    let at = column * (params.row_bytes / 16u) + wide;
    let columns = array<vec4<u32>, 4>(
        weights[at],
        weights[at + params.row_bytes / 16u],
        weights[at + 2u * (params.row_bytes / 16u)],
        weights[at + 3u * (params.row_bytes / 16u)],
    );
    let scale = scales_of(column, first);
    var found: Sums;
    for (var i = 0u; i < 4u; i++) {
        let words = vec4<u32>(columns[0][i], columns[1][i], columns[2][i], columns[3][i]);
        let k = first + i * per_word;
        add_block(&found, row, k, unscaled_block(words));
        if (FORMAT != BYTES) {
            add_block(&found, row, k + 4u, unscaled_block(words >> vec4<u32>(16u)));
        }
    }
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] += found[i] * scale;
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, ROWS, LANES * 4u);
    if (!part.exists) {
        return;
    }
    let column = column_of(part, thread);
    var sums: Sums;
    if (WIDE) {
        for (var wide = slice_of(thread); wide < params.row_bytes / 16u; wide += SLICES) {
            add_wide(&sums, part.row, column, wide);
        }
    } else {
        for (var k = slice_of(thread) * 4u; k < params.inner; k += SLICES * 4u) {
            add_block(&sums, part.row, k, weight_block(column, k));
        }
    }
    write_slices(part, thread, sums);
}
