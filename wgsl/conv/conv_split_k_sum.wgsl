// Adds the parts of a split-K sum of conv.wgsl or conv_pointwise.wgsl; a quad per invocation.

// use lib/grid.wgsl
// use lib/math.wgsl
// use lib/conv/conv_epilogue.wgsl

struct Params {
    quads: u32,
    splits: u32,
    channels: u32,
    channel_size: u32, // elements of one channel of one image
    low: f32,
    high: f32,
    residual: u32, // elements of the residual
}

override HAS_BIAS: bool;

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> bias: array<Stored>;
@group(0) @binding(2) var<storage, read> residual: array<vec4<Stored>>; // see lib/conv/conv_epilogue.wgsl
@group(0) @binding(3) var<storage, read_write> output: array<vec4<Stored>>;
@group(0) @binding(4) var<uniform> params: Params;

fn slope_of(channel: u32) -> f32 { return f32(residual[channel / 4u][channel % 4u]); }

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    var sum = parts[quad];
    for (var split = 1u; split < params.splits; split++) {
        sum += parts[split * params.quads + quad];
    }
    let four = vec4<u32>(quad * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let channel = (four / params.channel_size) % params.channels;
    if (HAS_BIAS) {
        sum += vec4<f32>(vec4<Stored>(bias[channel.x], bias[channel.y], bias[channel.z], bias[channel.w]));
    }
    var y = Vec();
    if (RESIDUAL == PER_ELEMENT) {
        y = select(Vec(), vec4<f32>(residual[quad]), four < vec4<u32>(params.residual));
    }
    if (RESIDUAL == PER_CHANNEL) {
        y = Vec(slope_of(channel.x), slope_of(channel.y), slope_of(channel.z), slope_of(channel.w));
    }
    output[quad] = vec4<Stored>(epilogue(sum, y, params.low, params.high));
}
