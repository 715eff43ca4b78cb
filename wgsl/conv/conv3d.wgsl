// Convolution of volumes: four channels of four neighbouring outputs per invocation, with plain loops.
// A transposed convolution finds the inputs that contribute to its outputs.

// use lib/grid.wgsl
// use lib/nan.wgsl

override HAS_BIAS: bool;
override TRANSPOSED: bool;

alias Stored = ${FLOAT};

struct Params {
    in_size: vec3<i32>, // (depth, height, width), as all vectors here
    batch: u32,
    out_size: vec3<i32>,
    groups: u32,
    kernel: vec3<i32>,
    in_channels: u32, // of a group
    stride: vec3<i32>,
    out_channels: u32, // of a group
    padding: vec3<i32>,
    blocks: u32, // of four channels
    dilation: vec3<i32>,
    runs: u32, // of four outputs
    low: f32,
    high: f32,
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<Stored>;
@group(0) @binding(2) var<storage, read> bias: array<Stored>;
@group(0) @binding(3) var<storage, read_write> output: array<Stored>;
@group(0) @binding(4) var<uniform> params: Params;

fn volume(size: vec3<i32>) -> u32 { return u32(size.x * size.y * size.z); }

fn is_within(place: vec4<i32>, size: i32) -> vec4<bool> { return vec4<u32>(place) < vec4<u32>(u32(size)); }

// The indices of the inputs under a tap along one dim; out of range if there are none.
fn source_of(place: vec4<i32>, tap: i32, stride: i32, padding: i32, dilation: i32) -> vec4<i32> {
    if (!TRANSPOSED) {
        return place * stride - padding + tap * dilation;
    }
    let spread = place + padding - tap * dilation;
    let hit = (spread >= vec4<i32>()) & (spread % stride == vec4<i32>());
    return select(vec4<i32>(-1), spread / stride, hit);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    var index = flat_index(invocation, workgroups);
    let run = index % params.runs;
    index /= params.runs;
    let first_channel = index % params.blocks * 4u;
    index /= params.blocks;
    let group = index % params.groups;
    let image = index / params.groups;
    if (image >= params.batch) {
        return;
    }
    let next = vec4<u32>(0u, 1u, 2u, 3u);
    let outputs = volume(params.out_size);
    let place = vec4<i32>(min(run * 4u + next, vec4<u32>(outputs - 1u)));
    let plane = params.out_size.y * params.out_size.z;
    let depth = place / plane;
    let row = place / params.out_size.z % params.out_size.y;
    let column = place % params.out_size.z;

    let taps = volume(params.kernel);
    let channel_size = volume(params.in_size);
    let image_at = (image * params.groups + group) * params.in_channels * channel_size;
    let channels = min(first_channel + next, vec4<u32>(params.out_channels - 1u));
    // Weights are [out, in, taps] in each group, or [in, out, taps] of a transposed convolution.
    let group_at = group * params.out_channels * params.in_channels;
    let first_weights = (group_at + channels * select(params.in_channels, 1u, TRANSPOSED)) * taps;
    let weights_step = select(1u, params.out_channels, TRANSPOSED) * taps;

    var sums = mat4x4<f32>(); // a column of four outputs per channel
    for (var tap = 0u; tap < taps; tap++) {
        let k = vec3<i32>(
            i32(tap) / (params.kernel.y * params.kernel.z),
            i32(tap) / params.kernel.z % params.kernel.y,
            i32(tap) % params.kernel.z,
        );
        let d = source_of(depth, k.x, params.stride.x, params.padding.x, params.dilation.x);
        let h = source_of(row, k.y, params.stride.y, params.padding.y, params.dilation.y);
        let w = source_of(column, k.z, params.stride.z, params.padding.z, params.dilation.z);
        let inside = is_within(d, params.in_size.x) & is_within(h, params.in_size.y) & is_within(w, params.in_size.z);
        if (!any(inside)) {
            continue;
        }
        // Taps outside of the volume read some element inside of it and count as 0.
        let offset = vec4<u32>((d * params.in_size.y + h) * params.in_size.z + w);
        var at = image_at + select(vec4<u32>(), offset, inside);
        var weights_at = first_weights + tap;
        for (var channel = 0u; channel < params.in_channels; channel++) {
            let found = vec4<f32>(f32(input[at.x]), f32(input[at.y]), f32(input[at.z]), f32(input[at.w]));
            let values = select(vec4<f32>(), found, inside);
            sums[0] += f32(weight[weights_at.x]) * values;
            sums[1] += f32(weight[weights_at.y]) * values;
            sums[2] += f32(weight[weights_at.z]) * values;
            sums[3] += f32(weight[weights_at.w]) * values;
            at += channel_size;
            weights_at += weights_step;
        }
    }

    for (var i = 0u; i < 4u; i++) {
        let number = first_channel + i;
        if (number >= params.out_channels) {
            return;
        }
        let channel = group * params.out_channels + number;
        var result = sums[i];
        if (HAS_BIAS) {
            result += f32(bias[channel]);
        }
        let bounded = select(
            min(max(result, vec4<f32>(params.low)), vec4<f32>(params.high)), result, is_nan_vec4f(result));
        let base = (image * params.groups * params.out_channels + channel) * outputs;
        for (var j = 0u; j < min(4u, outputs - run * 4u); j++) {
            output[base + run * 4u + j] = Stored(bounded[j]);
        }
    }
}
