// Element-wise kernels of XNNPACK on bytes: a word of four per invocation.
//
// FORMULA is an integer, of the integers x and y without their zeros.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/axes.wgsl
// use lib/int8/int8_operands.wgsl

struct Params {
    words: u32,
    rank: u32,
    x_zero: i32,
    y_zero: i32,
    x_factor: i32, // of sums
    y_factor: i32,
    shift: u32,
    scale: f32, // of products
    zero: i32, // of the output
    low: i32,
    high: i32,
    axes: array<vec4<u32>, MAX_AXES>,
}

@group(0) @binding(0) var<storage, read> x_words: array<u32>;
@group(0) @binding(1) var<storage, read> y_words: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

// Halves are rounded up.
fn weighted(x: vec4<i32>, y: vec4<i32>) -> vec4<i32> {
    let half = vec4<i32>(1i << (params.shift - 1u));
    return (x * params.x_factor + y * params.y_factor + half) >> vec4<u32>(params.shift);
}

// Halves are rounded to even.
fn product(x: vec4<i32>, y: vec4<i32>) -> vec4<i32> {
    return vec4<i32>(round(vec4<f32>(x * y) * params.scale));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    if (word >= params.words) {
        return;
    }
    let found = operands_at(word);
    let x = found.x - params.x_zero;
    let y = found.y - params.y_zero;
    let result = ${FORMULA} + params.zero;
    output[word] = word_of(vec4<u32>(clamp(result, vec4<i32>(params.low), vec4<i32>(params.high))));
}
