// Linear layers of int8 of any size on software adapters: four columns of a row per
// invocation, with a plain loop. Workgroup memory would take such an adapter minutes to compile.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/bytes.wgsl
// use lib/elements.wgsl
// use lib/int8/int8.wgsl
// use lib/int8/int8_linear.wgsl

struct Params {
    m: u32,
    n: u32,
    k: u32,
    m_parts: u32, // rows
    n_parts: u32, // quads of columns
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

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let index = flat_index(invocation, workgroups);
    let row = index / params.n_parts;
    let column = index % params.n_parts * 4u;
    if (row >= params.m) {
        return;
    }
    let zero = x_zero_of(row);
    var sums = vec4<i32>();
    for (var k = 0u; k < words_in_row(); k++) {
        let words = weight_words(column, k);
        let values = first_bytes(x_word(row, k), params.k - 4u * k);
        sums += dots(words, values) - zero * dots(words, ONES);
        if (scaling.weight_zero != 0) {
            let count = i32(min(4u, params.k - 4u * k));
            sums -= scaling.weight_zero * (dot4I8Packed(values, ONES) - zero * count);
        }
    }
    write_columns(row, column, sums);
}
