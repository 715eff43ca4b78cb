// Linear layers of int8 with many rows: a tile of the output per workgroup.

// use lib/quads.wgsl
// use lib/bytes.wgsl
// use lib/elements.wgsl
// use lib/int8/int8.wgsl
// use lib/int8/int8_linear.wgsl
// use lib/int8/int8_tile.wgsl

const WEIGHTS_IN_ROWS = false;

struct Params {
    m: u32,
    n: u32,
    k: u32,
    m_tiles: u32,
    n_tiles: u32,
}

@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<Stored>;
@group(0) @binding(3) var<storage, read> bias: array<Bias>;
@group(0) @binding(4) var<storage, read> row_scales: array<${SCALE}>;
@group(0) @binding(5) var<storage, read> row_zeros: array<word_${ZERO}>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<uniform> scaling: Scaling;
@group(0) @binding(8) var<uniform> params: Params;

var<private> first_row: u32;
var<private> own_column: u32;

fn load_rows(k: u32, quad: u32) -> vec4<u32> {
    let row = first_row + quad * 4u;
    return vec4<u32>(x_word(row, k), x_word(row + 1u, k), x_word(row + 2u, k), x_word(row + 3u, k));
}

fn load_columns(k: u32) -> vec4<u32> {
    return weight_words(own_column, k);
}

fn zero_of_row(row: u32) -> i32 {
    return x_zero_of(first_row + row);
}

fn finish(row: u32, sums: vec4<i32>) {
    write_columns(first_row + row, own_column, sums);
}

// Rows count fastest: neighbouring workgroups share weights, often the larger matrix.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if (index >= params.m_tiles * params.n_tiles) {
        return;
    }
    first_row = index % params.m_tiles * TILE_ROWS;
    own_column = index / params.m_tiles * TILE_COLUMNS + column_quad(thread) * 4u;
    multiply(thread, words_in_row());
}
