// Convolution on software adapters, of every kind: a run of four neighbouring outputs in each of
// BLOCK channels per invocation, with plain loops. Tiles in workgroup memory and windows in private
// arrays would take such an adapter minutes to compile.

// use lib/grid.wgsl
// use lib/conv/conv.wgsl
// use lib/conv/conv_runs.wgsl
// use lib/nan.wgsl

override HAS_RESIDUAL: bool;

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<Stored>;
@group(0) @binding(2) var<storage, read> bias: array<Stored>;
@group(0) @binding(3) var<storage, read> residual: array<Stored>; // 0 past its end
@group(0) @binding(4) var<storage, read_write> output: array<Stored>;
@group(0) @binding(5) var<uniform> params: Params;

// One quad of outputs per channel.
struct Sums {
    s0: vec4<f32>,
    s1: vec4<f32>,
    s2: vec4<f32>,
    s3: vec4<f32>,
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let place = run_of(flat_index(invocation, workgroups));
    if (!place.exists) {
        return;
    }
    let run = place.run;
    let line = place.line;
    let first_channel = place.first_channel;
    let group = place.group;
    let image = place.image;
    let h = place.h;
    let w = place.w;

    // Weights are (out channel, in channel, tap); transposed, (in channel, out channel, tap).
    let kernel_size = params.kernel.x * params.kernel.y;
    var step = params.in_channels * kernel_size;
    var in_step = kernel_size;
    var weights_at = group * params.out_channels * step;
    if (TRANSPOSED) {
        step = kernel_size;
        in_step = params.out_channels * kernel_size;
        weights_at = group * params.in_channels * in_step;
    }
    let next = vec4<u32>(0u, 1u, 2u, 3u);
    let channels_at = weights_at + min(first_channel + next, vec4<u32>(params.out_channels - 1u)) * step;
    let channel_size = params.in_size.x * params.in_size.y;
    let image_at = (image * params.groups + group) * params.in_channels * channel_size;

    var sums = Sums();
    for (var tap = 0u; tap < h.taps * w.taps; tap++) {
        let tap_h = tap / w.taps;
        let tap_w = tap % w.taps;
        let in_h = h.start + i32(line) * h.advance + i32(tap_h) * h.reach;
        let in_w = w.start + vec4<i32>(run * 4u + next) * w.advance + i32(tap_w) * w.reach;
        let inside = (vec4<u32>(in_w) < vec4<u32>(params.in_size.y)) & vec4<bool>(u32(in_h) < params.in_size.x);
        // Taps outside of the image read some element inside of it and count as 0.
        var at = image_at + select(vec4<u32>(), u32(in_h) * params.in_size.y + vec4<u32>(in_w), inside);
        var taps_at = channels_at + (h.first_tap + tap_h * h.tap_step) * params.kernel.y
            + w.first_tap + tap_w * w.tap_step;
        let channels = select(0u, params.in_channels, any(inside));
        for (var channel = 0u; channel < channels; channel++) {
            let found = vec4<f32>(f32(input[at.x]), f32(input[at.y]), f32(input[at.z]), f32(input[at.w]));
            let values = select(vec4<f32>(), found, inside);
            sums.s0 += f32(weight[taps_at.x]) * values;
            if (BLOCK > 1u) {
                sums.s1 += f32(weight[taps_at.y]) * values;
                sums.s2 += f32(weight[taps_at.z]) * values;
                sums.s3 += f32(weight[taps_at.w]) * values;
            }
            at += channel_size;
            taps_at += in_step;
        }
    }

    // In a loop: each memory access costs time to compile.
    let out_h = h.first_output + line * h.output_step;
    for (var i = 0u; i < BLOCK * 4u; i++) {
        let number = first_channel + i / 4u;
        let column = run * 4u + i % 4u;
        if (number < params.out_channels && column < w.outputs) {
            var quad = sums.s0;
            if (BLOCK > 1u) {
                quad = select(quad, sums.s1, i / 4u == 1u);
                quad = select(quad, sums.s2, i / 4u == 2u);
                quad = select(quad, sums.s3, i / 4u == 3u);
            }
            let channel = group * params.out_channels + number;
            var result = quad[i % 4u];
            if (HAS_BIAS) {
                result += f32(bias[channel]);
            }
            let row = (image * params.groups * params.out_channels + channel) * params.out_size.x + out_h;
            let at = row * params.out_size.y + w.first_output + column * w.output_step;
            if (HAS_RESIDUAL && at < params.residual) {
                result += f32(residual[at]);
            }
            let bounded = select(min(max(result, params.low), params.high), result, is_nan_f32(result));
            output[at] = Stored(bounded);
        }
    }
}
