// Scales integer sums and requantizes them to bytes.
//
// A kernel that uses this file (and lib/quads.wgsl) has a uniform `scaling: Scaling`; its scales of
// weights are an array of Stored, its biases of Bias.

alias Stored = ${FLOAT};
alias Bias = ${BIAS}; // i32 with INTEGER_BIAS, otherwise a float

override INTEGER_BIAS = false; // it is added to the sums, before they are scaled

struct Scaling {
    x_scale: f32,
    x_zero: i32,
    inverse: f32, // of the output's scale
    zero: f32, // of the output
    least: f32, // 0 after a relu, otherwise the lowest float
    nothing: u32, // 0, which the compiler does not know
    row_bytes: u32, // from one output channel's weights to the next one's
    tap_bytes: u32, // of convolutions: from one tap's weights to the next one's
    scales: u32, // of weights: they repeat after so many channels
    low: f32, // the range of the output
    high: f32,
    weight_zero: i32,
}

// Sums of (x - zero) * weight as floats. The product must be rounded before the bias is added, not
// fused with it: then all GPUs compute the same integers.
fn scaled(sums: vec4<i32>, scale: vec4<f32>, bias: vec4<Bias>) -> vec4<f32> {
    if (INTEGER_BIAS) {
        return vec4<f32>(sums + vec4<i32>(bias)) * scale;
    }
    let product = vec4<f32>(sums) * (scaling.x_scale * scale);
    let rounded = bitcast<vec4<f32>>(bitcast<vec4<u32>>(product) | vec4<u32>(scaling.nothing));
    return max(rounded + vec4<f32>(bias), vec4<f32>(scaling.least));
}

fn requantized(x: vec4<f32>) -> u32 {
    let value = round(x * scaling.inverse) + scaling.zero;
    return word_of(vec4<u32>(vec4<i32>(clamp(value, vec4<f32>(scaling.low), vec4<f32>(scaling.high)))));
}
