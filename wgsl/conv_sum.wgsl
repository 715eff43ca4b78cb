// Adds the parts that conv.wgsl and conv_pointwise.wgsl left of a split sum; a quad per invocation.

// use lib/grid.wgsl
// use lib/math.wgsl

struct Params {
    quads: u32,
    splits: u32,
    channels: u32,
    channel_size: u32, // elements of one channel of one image
    low: f32,
    high: f32,
}

override HAS_BIAS: bool;
override HAS_ADDED: bool;

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> bias: array<Stored>;
@group(0) @binding(2) var<storage, read> added: array<vec4<Stored>>; // like the output
@group(0) @binding(3) var<storage, read_write> output: array<vec4<Stored>>;
@group(0) @binding(4) var<uniform> params: Params;

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
    if (HAS_BIAS) {
        let channel = ((vec4<u32>(quad * 4u) + vec4<u32>(0u, 1u, 2u, 3u)) / params.channel_size) % params.channels;
        sum += vec4<f32>(vec4<Stored>(bias[channel.x], bias[channel.y], bias[channel.z], bias[channel.w]));
    }
    if (HAS_ADDED) {
        sum += vec4<f32>(added[quad]);
    }
    output[quad] = vec4<Stored>(bounded(sum, params.low, params.high));
}
