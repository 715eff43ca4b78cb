// Element-wise kernels from int8 to int8: a word of four bytes per invocation.
//
// FORMULA is of the floats x and y that the operands stand for.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/axes.wgsl
// use lib/int8/int8_operands.wgsl

struct Params {
    words: u32,
    rank: u32,
    x_scale: f32,
    x_zero: f32,
    y_scale: f32,
    y_zero: f32,
    inverse: f32, // of the output's scale
    zero: f32, // of the output
    alpha: f32,
    nothing: u32, // 0, which the compiler does not know
    axes: array<vec4<u32>, MAX_AXES>,
}

@group(0) @binding(0) var<storage, read> x_words: array<u32>;
@group(0) @binding(1) var<storage, read> y_words: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

// Rounds a product, so that it is not fused with a sum: then all GPUs compute the same integers.
fn alone(product: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(product) | vec4<u32>(params.nothing));
}

fn formula(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    return ${FORMULA};
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    if (word >= params.words) {
        return;
    }
    let found = operands_at(word);
    let x = (vec4<f32>(found.x) - params.x_zero) * params.x_scale;
    let y = (vec4<f32>(found.y) - params.y_zero) * params.y_scale;
    let value = round(formula(x, y) * params.inverse) + params.zero;
    output[word] = word_of(vec4<u32>(vec4<i32>(clamp(value, vec4<f32>(-128.0), vec4<f32>(127.0)))));
}
