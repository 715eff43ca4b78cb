// How a convolution ends: with a formula of its sums `x` (the bias among them), of what lies beside them,
// `y`, and of two numbers. Goes with lib/math.wgsl.

alias Vec = vec4<f32>;

const PER_ELEMENT = 1u; // `residual` is like the output; behind `params.residual` elements of it y is 0
const PER_CHANNEL = 2u; // it has a number for each channel
override RESIDUAL: u32; // 0: nothing

fn epilogue(x: Vec, y: Vec, a: f32, b: f32) -> Vec { return ${FORMULA}; }
