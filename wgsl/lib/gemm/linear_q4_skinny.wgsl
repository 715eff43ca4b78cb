// Few rows of x times wide units of quantized weights: a unit is a vec4<u32> of a column, all values of
// which share a scale. Goes with lib/gemm/linear_q4_input.wgsl, lib/gemm/q4_weights.wgsl, lib/gemm/q4_units.wgsl,
// lib/gemm/gemm_skinny.wgsl and lib/gemm/prologue.wgsl.

fn add_block(sums: ptr<function, Sums>, row: u32, k: u32, block: Block) {
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = plus_products((*sums)[i], prologue_quad(row + i, k), block);
    }
}

// Adds one word of each of four columns: 8 nibbles or 4 bytes, from k on.
fn add_words(sums: ptr<function, Sums>, row: u32, k: u32, words: vec4<u32>) {
    add_block(sums, row, k, unscaled_block(words));
    if (FORMAT != BYTES) {
        add_block(sums, row, k + 4u, unscaled_block(words >> vec4<u32>(16u)));
    }
}

// Adds a unit of each of four columns, from k on.
fn add_units(sums: ptr<function, Sums>, row: u32, k: u32, c0: vec4<u32>, c1: vec4<u32>, c2: vec4<u32>, c3: vec4<u32>, scale: vec4<f32>) {
    let per_word = values_per_unit() / 4u;
    var found: Sums;
    add_words(&found, row, k, vec4<u32>(c0.x, c1.x, c2.x, c3.x));
    add_words(&found, row, k + per_word, vec4<u32>(c0.y, c1.y, c2.y, c3.y));
    add_words(&found, row, k + 2u * per_word, vec4<u32>(c0.z, c1.z, c2.z, c3.z));
    add_words(&found, row, k + 3u * per_word, vec4<u32>(c0.w, c1.w, c2.w, c3.w));
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = fma(found[i], scale, (*sums)[i]);
    }
}
