// Batch normalization with given statistics, one of each per channel:
// output = (x - mean) / sqrt(variance + eps) * weight + bias, a quad per invocation; x is a formula of
// the input, and of up to three numbers.
// FLOAT is the stored type: f32 or f16.

// use lib/grid.wgsl
// use lib/math.wgsl

alias Stored = vec4<${FLOAT}>;

override HAS_WEIGHT: bool;
override HAS_BIAS: bool;

struct Params {
    quads: u32,
    channels: u32,
    inner: u32, // elements of one channel that lie together
    eps: f32,
    a: f32, // of the formula
    b: f32,
    c: f32,
}

alias Vec = vec4<f32>;

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<${FLOAT}>;
@group(0) @binding(2) var<storage, read> bias: array<${FLOAT}>;
@group(0) @binding(3) var<storage, read> means: array<${FLOAT}>;
@group(0) @binding(4) var<storage, read> variances: array<${FLOAT}>;
@group(0) @binding(5) var<storage, read_write> output: array<Stored>;
@group(0) @binding(6) var<uniform> params: Params;

fn bent(x: Vec, a: f32, b: f32, c: f32) -> Vec { return ${FORMULA}; }

// The factor and the term of one element's channel.
fn affine(element: u32) -> vec2f {
    let channel = (element / params.inner) % params.channels;
    var factor = inverseSqrt(f32(variances[channel]) + params.eps);
    if (HAS_WEIGHT) {
        factor *= f32(weight[channel]);
    }
    var term = -f32(means[channel]) * factor;
    if (HAS_BIAS) {
        term += f32(bias[channel]);
    }
    return vec2f(factor, term);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    let first = affine(quad * 4u);
    var factors = vec4f(first.x);
    var terms = vec4f(first.y);
    if (params.inner % 4u != 0u) {
        for (var lane = 1u; lane < 4u; lane++) {
            let other = affine(quad * 4u + lane);
            factors[lane] = other.x;
            terms[lane] = other.y;
        }
    }
    output[quad] = Stored(bent(vec4f(input[quad]), params.a, params.b, params.c) * factors + terms);
}
