// The epilogue of a convolution: a formula of the sums `x` (with the bias), the residual `y` and the
// numbers a and b. Goes with lib/math.wgsl.

alias Vec = vec4<f32>;

const PER_ELEMENT = 1u; // `residual` is like the output; y is 0 from its `params.residual`-th element on
const PER_CHANNEL = 2u; // `residual` has a number for each channel
override RESIDUAL: u32; // 0: none

fn epilogue(x: Vec, y: Vec, a: f32, b: f32) -> Vec { return ${FORMULA}; }
