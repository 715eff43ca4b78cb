// Linear layers of int8 with few rows, as fast as the weights can be read: a workgroup has ROWS rows
// and four columns; its invocations split the sums.

// use lib/quads.wgsl
// use lib/bytes.wgsl
// use lib/elements.wgsl
// use lib/int8/int8.wgsl
// use lib/int8/int8_linear.wgsl

const ROWS = ${ROWS}u;
const THREADS = 128u;

struct Params {
    m: u32,
    n: u32,
    k: u32,
    m_parts: u32,
    n_parts: u32,
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

var<workgroup> parts: array<vec4<i32>, ROWS * THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if (index >= params.m_parts * params.n_parts) {
        return;
    }
    let row = index % params.m_parts * ROWS;
    let column = index / params.m_parts * 4u;

    var zeros: array<i32, ROWS>;
    for (var i = 0u; i < ROWS; i++) {
        zeros[i] = x_zero_of(row + i);
    }
    var sums: array<vec4<i32>, ROWS>;
    for (var k = thread; k < words_in_row(); k += THREADS) {
        let words = weight_words(column, k);
        let weights = dots(words, ONES);
        for (var i = 0u; i < ROWS; i++) {
            sums[i] += dots(words, x_word(row + i, k)) - zeros[i] * weights;
        }
    }
    for (var i = 0u; i < ROWS; i++) {
        parts[i * THREADS + thread] = sums[i];
    }
    for (var rest = THREADS / 2u; rest > 0u; rest /= 2u) {
        workgroupBarrier();
        if (thread < rest) {
            for (var i = 0u; i < ROWS; i++) {
                parts[i * THREADS + thread] += parts[i * THREADS + thread + rest];
            }
        }
    }
    workgroupBarrier();
    if (thread < ROWS) {
        write_columns(row + thread, column, parts[thread * THREADS]);
    }
}
