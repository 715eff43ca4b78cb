// The operands and the results of linear layers of int8: x [m, k] times the transpose of weights
// [n, k]. Goes with lib/bytes.wgsl, lib/elements.wgsl and
// lib/int8/int8.wgsl.
//
// Bindings: `x`, `weight`, `scales`, `bias`, `row_scales`, `row_zeros`, `output` (an array of Out), and
// params with m, n and k. Without ROW_PARAMS all rows of x have the scale and the zero of `scaling`.

// use lib/quotient.wgsl
// use lib/quant/scale_pair.wgsl

alias Out = ${OUT}; // u32 with BYTES, otherwise a float
override X_ALIGNED: bool; // rows start at words
override WEIGHT_ALIGNED: bool;
override X_FLIP = 0u; // 0x80808080 makes unsigned bytes signed: 128 less
override WEIGHT_FLIP = 0u;
override ROW_PARAMS = false;
override BYTES: bool; // the output is int8, and its rows are whole words

fn words_in_row() -> u32 {
    return (params.k + 3u) / 4u;
}

// Bytes past the end of a row are undefined: their weights are 0.
fn x_word(row: u32, k: u32) -> u32 {
    if (row >= params.m) {
        return 0u;
    }
    let byte = row * params.k + 4u * k;
    if (X_ALIGNED) {
        return x[byte / 4u] ^ X_FLIP;
    }
    return joined(x[byte / 4u], x[byte / 4u + 1u], byte) ^ X_FLIP;
}

fn weight_word(row: u32, k: u32) -> u32 {
    if (row >= params.n || 4u * k >= params.k) {
        return 0u;
    }
    let byte = row * scaling.row_bytes + 4u * k;
    if (WEIGHT_ALIGNED) {
        return weight[byte / 4u] ^ WEIGHT_FLIP;
    }
    return first_bytes(joined(weight[byte / 4u], weight[byte / 4u + 1u], byte) ^ WEIGHT_FLIP, params.k - 4u * k);
}

fn weight_words(row: u32, k: u32) -> vec4<u32> {
    return vec4<u32>(
        weight_word(row, k), weight_word(row + 1u, k), weight_word(row + 2u, k), weight_word(row + 3u, k)
    );
}

fn x_zero_of(row: u32) -> i32 {
    if (ROW_PARAMS) {
        return i32(pick_${ZERO}(row_zeros[row / per_word_${ZERO}], row));
    }
    return scaling.x_zero;
}

// Four columns of a row, from the sums of (x - zero) * weight.
fn write_columns(row: u32, column: u32, sums: vec4<i32>) {
    if (row >= params.m || column >= params.n) {
        return;
    }
    var scale = vec4<f32>();
    var offset = vec4<Bias>();
    for (var i = 0u; i < min(4u, params.n - column); i++) {
        scale[i] = f32(scales[column + i]);
        // Without a bias there is a short buffer of zeros.
        offset[i] = bias[min(column + i, arrayLength(&bias) - 1u)];
    }
    if (ROW_PARAMS) {
        scale *= scale_pair(f32(row_scales[row])).x;
    }
    let values = scaled(sums, scale, offset);
    let at = row * params.n + column;
    if (BYTES) {
        output[at / 4u] = Out(requantized(values));
        return;
    }
    for (var i = 0u; i < min(4u, params.n - column); i++) {
        output[at + i] = Out(values[i]);
    }
}
