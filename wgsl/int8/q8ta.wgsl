// Element-wise kernels from int8 to int8: a word of four bytes per invocation.
//
// FORMULA is of the floats x and y that the operands stand for.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/axes.wgsl

override HAS_Y: bool;
// Whether an operand has the output's layout; otherwise it is read through the axes.
override X_FLAT: bool;
override Y_FLAT: bool;

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
    var left = vec4<i32>();
    var right = vec4<i32>();
    if (!X_FLAT || !Y_FLAT) {
        var axes = params.axes;
        for (var lane = 0u; lane < 4u; lane++) {
            let at = strided_offsets(word * 4u + lane, params.rank, &axes);
            left[lane] = signed_bytes_of(x_words[at.x / 4u])[at.x % 4u];
            if (HAS_Y) {
                right[lane] = signed_bytes_of(y_words[at.y / 4u])[at.y % 4u];
            }
        }
    }
    if (X_FLAT) {
        left = signed_bytes_of(x_words[word]);
    }
    if (HAS_Y && Y_FLAT) {
        right = signed_bytes_of(y_words[word]);
    }
    let x = (vec4<f32>(left) - params.x_zero) * params.x_scale;
    let y = (vec4<f32>(right) - params.y_zero) * params.y_scale;
    let value = round(formula(x, y) * params.inverse) + params.zero;
    output[word] = word_of(vec4<u32>(vec4<i32>(clamp(value, vec4<f32>(-128.0), vec4<f32>(127.0)))));
}
