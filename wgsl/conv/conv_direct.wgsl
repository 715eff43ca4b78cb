// Convolution without workgroup memory: depthwise, or so few channels per group that a tile would be
// mostly empty. An invocation computes a run of four neighbouring outputs in each of BLOCK channels.
//
// With WINDOW > 0, the inputs under one row of taps are loaded once for the whole run. The width of
// kernel, stride and dilation are then constants, so the window stays in registers.

// use lib/grid.wgsl
// use lib/conv/conv.wgsl
// use lib/conv/conv_runs.wgsl
// use lib/math.wgsl
// use lib/conv/conv_epilogue.wgsl

const WINDOW = ${WINDOW}u;
const WINDOW_TAPS = ${WINDOW_TAPS}u;
const WINDOW_STRIDE = ${WINDOW_STRIDE}u;
const WINDOW_DILATION = ${WINDOW_DILATION}u;

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<Stored>;
@group(0) @binding(2) var<storage, read> bias: array<Stored>;
@group(0) @binding(3) var<storage, read> residual: array<Stored>; // see lib/conv/conv_epilogue.wgsl
@group(0) @binding(4) var<storage, read_write> output: array<Stored>;
@group(0) @binding(5) var<uniform> params: Params;

alias Sums = array<vec4<f32>, BLOCK>;

// `weights_at` is where the taps of the block's first channel begin, `step` leads to the next one.
fn add_tap(sums: ptr<function, Sums>, values: vec4<f32>, weights_at: u32, step: u32, channels: u32) {
    for (var i = 0u; i < BLOCK; i++) {
        let tap = f32(weight[weights_at + min(i, channels - 1u) * step]);
        (*sums)[i] = fma(vec4<f32>(tap), values, (*sums)[i]);
    }
}

fn input_at(row_at: u32, w: i32) -> f32 {
    if (u32(w) < params.in_size.y) {
        return f32(input[row_at + u32(w)]);
    }
    return 0.0;
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
    let channels = min(params.out_channels - first_channel, BLOCK);

    // Weights are (out channel, in channel, tap); transposed, (in channel, out channel, tap).
    let kernel_size = params.kernel.x * params.kernel.y;
    var step = params.in_channels * kernel_size;
    var in_step = kernel_size;
    var weights_at = (group * params.out_channels + first_channel) * step;
    if (TRANSPOSED) {
        step = kernel_size;
        in_step = params.out_channels * kernel_size;
        weights_at = group * params.in_channels * in_step + first_channel * step;
    }

    let line_h = h.start + i32(line) * h.advance;
    let run_w = w.start + i32(run * 4u) * w.advance;
    let channel_size = params.in_size.x * params.in_size.y;
    let image_at = (image * params.groups + group) * params.in_channels * channel_size;
    var sums: Sums;
    for (var channel = 0u; channel < params.in_channels; channel++) {
        for (var tap_h = 0u; tap_h < h.taps; tap_h++) {
            let in_h = line_h + i32(tap_h) * h.reach;
            if (u32(in_h) >= params.in_size.x) {
                continue;
            }
            let row_at = image_at + channel * channel_size + u32(in_h) * params.in_size.y;
            let taps_at = weights_at + channel * in_step
                + (h.first_tap + tap_h * h.tap_step) * params.kernel.y + w.first_tap;
            if (WINDOW > 0u) {
                var window: array<f32, max(WINDOW, 1u)>;
                for (var i = 0u; i < WINDOW; i++) {
                    window[i] = input_at(row_at, run_w + i32(i));
                }
                for (var tap = 0u; tap < WINDOW_TAPS; tap++) {
                    let i = tap * WINDOW_DILATION;
                    let values = vec4<f32>(
                        window[i],
                        window[i + WINDOW_STRIDE],
                        window[i + 2u * WINDOW_STRIDE],
                        window[i + 3u * WINDOW_STRIDE],
                    );
                    add_tap(&sums, values, taps_at + tap, step, channels);
                }
            } else {
                for (var tap = 0u; tap < w.taps; tap++) {
                    let in_w = run_w + i32(tap) * w.reach;
                    let values = vec4<f32>(
                        input_at(row_at, in_w),
                        input_at(row_at, in_w + w.advance),
                        input_at(row_at, in_w + 2 * w.advance),
                        input_at(row_at, in_w + 3 * w.advance),
                    );
                    add_tap(&sums, values, taps_at + tap * w.tap_step, step, channels);
                }
            }
        }
    }

    let out_h = h.first_output + line * h.output_step;
    for (var i = 0u; i < BLOCK; i++) {
        if (i >= channels) {
            break;
        }
        let channel = group * params.out_channels + first_channel + i;
        let row_at = ((image * params.groups * params.out_channels + channel) * params.out_size.x + out_h) * params.out_size.y;
        var result = sums[i];
        if (HAS_BIAS) {
            result += f32(bias[channel]);
        }
        var y = Vec();
        if (RESIDUAL == PER_ELEMENT) {
            for (var j = 0u; j < 4u; j++) {
                let at = row_at + w.first_output + (run * 4u + j) * w.output_step;
                y[j] = select(0.0, f32(residual[at]), at < params.residual);
            }
        }
        if (RESIDUAL == PER_CHANNEL) {
            y = Vec(f32(residual[channel]));
        }
        result = epilogue(result, y, params.low, params.high);
        for (var j = 0u; j < 4u; j++) {
            if (run * 4u + j < w.outputs) {
                output[row_at + w.first_output + (run * 4u + j) * w.output_step] = Stored(result[j]);
            }
        }
    }
}
