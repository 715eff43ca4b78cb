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

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> row_scales: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> row_zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(5) var<storage, read> addend: array<Stored>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
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

// One k after the other, so that each step is a single instruction.
fn plus_products(sums: Quad, values: vec4<f32>, block: Block) -> Quad {
    var sum = fma(Quad(values.x), block.k0, sums);
    sum = fma(Quad(values.y), block.k1, sum);
    sum = fma(Quad(values.z), block.k2, sum);
    return fma(Quad(values.w), block.k3, sum);
}

fn add_block(sums: ptr<function, Sums>, row: u32, k: u32, block: Block) {
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = plus_products((*sums)[i], x_quad(row + i, k), block);
    }
}

// Adds one word of each of four columns: 8 halves or 4 bytes, from k on.
fn add_words(sums: ptr<function, Sums>, row: u32, k: u32, words: vec4<u32>) {
    add_block(sums, row, k, unscaled_block(words));
    if (FORMAT != BYTES) {
        add_block(sums, row, k + 4u, unscaled_block(words >> vec4<u32>(16u)));
    }
}

// Adds a vec4<u32> of each of four columns, `unit` being its place in the row.
fn add_unit(sums: ptr<function, Sums>, row: u32, column: u32, unit: u32) {
    let per_word = select(8u, 4u, FORMAT == BYTES);
    let units = params.row_bytes / 16u;
    let at = column * units + unit;
    let c0 = weights[at];
    let c1 = weights[at + units];
    let c2 = weights[at + 2u * units];
    let c3 = weights[at + 3u * units];
    let k = unit * 4u * per_word;
    let scale = scales_of(column, k);
    var found: Sums;
    add_words(&found, row, k, vec4<u32>(c0.x, c1.x, c2.x, c3.x));
    add_words(&found, row, k + per_word, vec4<u32>(c0.y, c1.y, c2.y, c3.y));
    add_words(&found, row, k + 2u * per_word, vec4<u32>(c0.z, c1.z, c2.z, c3.z));
    add_words(&found, row, k + 3u * per_word, vec4<u32>(c0.w, c1.w, c2.w, c3.w));
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = fma(found[i], scale, (*sums)[i]);
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
        for (var unit = slice_of(thread); unit < params.row_bytes / 16u; unit += SLICES) {
            add_unit(&sums, part.row, column, unit);
        }
    } else {
        for (var k = slice_of(thread) * 4u; k < params.inner; k += SLICES * 4u) {
            add_block(&sums, part.row, k, weight_block(column, k));
        }
    }
    write_slices(part, thread, sums);
}
