// Few rows of x times wide units of quantized weights: a unit is a vec4<u32> of a column, all values of
// which share a scale. Goes with lib/gemm/linear_q4_input.wgsl, lib/gemm/q4_weights.wgsl, lib/gemm/q4_units.wgsl,
// lib/gemm/gemm_skinny.wgsl and lib/gemm/prologue.wgsl.

fn accumulate_block(sums: ptr<function, Sums>, row: u32, k: u32, block: Block) {
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = fma_block((*sums)[i], prologue_quad(row + i, k), block);
    }
}

// Adds one word of each of four columns: 8 nibbles or 4 bytes, from k on.
fn accumulate_words(sums: ptr<function, Sums>, row: u32, k: u32, words: vec4<u32>) {
    accumulate_block(sums, row, k, unscaled_block(words));
    if (FORMAT != BYTES) {
        accumulate_block(sums, row, k + 4u, unscaled_block(words >> vec4<u32>(16u)));
    }
}

// Adds a unit of each of four columns, from k on.
fn accumulate_units(sums: ptr<function, Sums>, row: u32, k: u32, c0: vec4<u32>, c1: vec4<u32>, c2: vec4<u32>, c3: vec4<u32>, scale: vec4<f32>) {
    let per_word = values_per_unit() / 4u;
    var found: Sums;
    accumulate_words(&found, row, k, vec4<u32>(c0.x, c1.x, c2.x, c3.x));
    accumulate_words(&found, row, k + per_word, vec4<u32>(c0.y, c1.y, c2.y, c3.y));
    accumulate_words(&found, row, k + 2u * per_word, vec4<u32>(c0.z, c1.z, c2.z, c3.z));
    accumulate_words(&found, row, k + 3u * per_word, vec4<u32>(c0.w, c1.w, c2.w, c3.w));
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = fma(found[i], scale, (*sums)[i]);
    }
}

// For many rows: eight columns at once, so that x is read once for all of them. It takes as long to bring a quad of x to
// the registers of all invocations as to multiply it by four columns.

// A unit of each of four columns, and their scales.
struct Units {
    c0: vec4<u32>,
    c1: vec4<u32>,
    c2: vec4<u32>,
    c3: vec4<u32>,
    scale: vec4<f32>,
}

// Weights are scaled as they are unpacked: separate sums of a unit would take as many registers as the sums themselves.
fn weights_block(words: vec4<u32>, scale: vec4<f32>) -> Block {
    let block = unscaled_block(words);
    return Block(block.k0 * scale, block.k1 * scale, block.k2 * scale, block.k3 * scale);
}

fn accumulate_two_blocks(sums: ptr<function, Sums>, more: ptr<function, Sums>, row: u32, k: u32, block: Block, second: Block) {
    for (var i = 0u; i < ROWS; i++) {
        let values = prologue_quad(row + i, k);
        (*sums)[i] = fma_block((*sums)[i], values, block);
        (*more)[i] = fma_block((*more)[i], values, second);
    }
}

fn accumulate_two_words(sums: ptr<function, Sums>, more: ptr<function, Sums>, row: u32, k: u32, words: vec4<u32>, second: vec4<u32>, scale: vec4<f32>, second_scale: vec4<f32>) {
    accumulate_two_blocks(sums, more, row, k, weights_block(words, scale), weights_block(second, second_scale));
    if (FORMAT != BYTES) {
        let shift = vec4<u32>(16u);
        let block = weights_block(words >> shift, scale);
        accumulate_two_blocks(sums, more, row, k + 4u, block, weights_block(second >> shift, second_scale));
    }
}

// Adds two units, of four columns each, from k on.
fn accumulate_two_units(sums: ptr<function, Sums>, more: ptr<function, Sums>, row: u32, k: u32, a: Units, b: Units) {
    let per_word = values_per_unit() / 4u;
    for (var i = 0u; i < 4u; i++) {
        let words = vec4<u32>(a.c0[i], a.c1[i], a.c2[i], a.c3[i]);
        let second = vec4<u32>(b.c0[i], b.c1[i], b.c2[i], b.c3[i]);
        accumulate_two_words(sums, more, row, k + i * per_word, words, second, a.scale, b.scale);
    }
}
