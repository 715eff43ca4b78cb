// Quantized weights [rows, inner] as blocks of floats. Goes with lib/gemm/gemm.wgsl.
//
// Bindings: `weights` (array<vec4<u32>>: row after row of bytes) and `scales` (array<StoredQuad>:
// [groups, rows], a group being GROUP_SIZE values of a row). In `params` also: `inner` (values
// in a row), `row_bytes`, and `scale_stride` (from one group's scales to the next one's).

const LOW_FIRST = 0u; // two values in a byte, the first in its low nibble, each 8 too large
const HIGH_FIRST = 1u; // the first in the high nibble
const BYTES = 2u; // one signed value in a byte
override FORMAT: u32;
override GROUP_SIZE: u32; // values that share a scale; a constant, as division by it is frequent
// Four values that start at a multiple of four lie in one word, and in one group.
override WEIGHTS_ALIGNED: bool;
override SCALES_ALIGNED: bool; // scale_stride is a multiple of four

fn word_at(byte: u32) -> u32 {
    return weights[byte / 16u][byte / 4u % 4u];
}

// A small integer in the mantissa of 2^23: the float 2^23 + integer.
fn float_of(small: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(small | vec4<u32>(0x4b000000u));
}

// The i-th of four values that lie in the low bits of each word.
fn value_of(words: vec4<u32>, i: u32) -> vec4<f32> {
    if (FORMAT == BYTES) {
        return float_of(((words >> vec4<u32>(8u * i)) & vec4<u32>(0xffu)) ^ vec4<u32>(0x80u)) - 8388736.0;
    }
    let shift = select(4u * i, 4u * (i ^ 1u), FORMAT == HIGH_FIRST);
    return float_of((words >> vec4<u32>(shift)) & vec4<u32>(0xfu)) - 8388616.0;
}

fn scale_at(row: u32, k: u32) -> f32 {
    let at = k / GROUP_SIZE * params.scale_stride + row;
    return f32(scales[at / 4u][at % 4u]);
}

fn scales_of(row: u32, k: u32) -> vec4<f32> {
    if (SCALES_ALIGNED) {
        return vec4<f32>(scales[(k / GROUP_SIZE * params.scale_stride + row) / 4u]);
    }
    return vec4<f32>(scale_at(row, k), scale_at(row + 1u, k), scale_at(row + 2u, k), scale_at(row + 3u, k));
}

fn weight_at(row: u32, k: u32) -> f32 {
    let byte = row * params.row_bytes + select(k / 2u, k, FORMAT == BYTES);
    let word = vec4<u32>(word_at(byte) >> (byte % 4u * 8u));
    return value_of(word, select(k % 2u, 0u, FORMAT == BYTES)).x * scale_at(row, k);
}

fn weights_at(row: u32, k: u32) -> vec4<f32> {
    return vec4<f32>(weight_at(row, k), weight_at(row + 1u, k), weight_at(row + 2u, k), weight_at(row + 3u, k));
}

// With WEIGHTS_ALIGNED: the bytes where rows row .. row + 3 have their values from k on, and the words.
fn bytes_at(row: u32, k: u32) -> vec4<u32> {
    return vec4<u32>(row, row + 1u, row + 2u, row + 3u) * params.row_bytes + select(k / 2u, k, FORMAT == BYTES);
}

fn words_of(row: u32, k: u32) -> vec4<u32> {
    let bytes = bytes_at(row, k);
    return vec4<u32>(word_at(bytes.x), word_at(bytes.y), word_at(bytes.z), word_at(bytes.w));
}

// How many bits the four values are shifted within their words.
fn shifts_of(row: u32, k: u32) -> vec4<u32> {
    return bytes_at(row, k) % vec4<u32>(4u) * vec4<u32>(8u);
}

fn scaled_block(words: vec4<u32>, scale: vec4<f32>) -> Block {
    return Block(
        value_of(words, 0u) * scale,
        value_of(words, 1u) * scale,
        value_of(words, 2u) * scale,
        value_of(words, 3u) * scale,
    );
}

// Four values of the rows row .. row + 3; k is a multiple of four.
fn weight_block(row: u32, k: u32) -> Block {
    if (k >= params.inner) {
        return Block();
    }
    if (!WEIGHTS_ALIGNED) {
        return Block(weights_at(row, k), weights_at(row, k + 1u), weights_at(row, k + 2u), weights_at(row, k + 3u));
    }
    return scaled_block(words_of(row, k) >> shifts_of(row, k), scales_of(row, k));
}
