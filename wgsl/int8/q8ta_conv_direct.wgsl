// Convolution of int8 without workgroup memory: depthwise, or so few channels per group that a tile
// would be mostly empty. An invocation computes one word of the output.
//
// With WINDOW > 0 the four bytes of a word are neighbours in one row, and the inputs under one row
// of taps are loaded once for all of them. The width of kernel, stride and dilation are then
// constants, so the window stays in registers.

// use lib/grid.wgsl
// use lib/conv/conv.wgsl
// use lib/quads.wgsl
// use lib/bytes.wgsl
// use lib/int8/int8.wgsl
// use lib/int8/int8_conv.wgsl

const WINDOW = ${WINDOW}u;
const WINDOW_TAPS = ${WINDOW_TAPS}u;
const WINDOW_STRIDE = ${WINDOW_STRIDE}u;
const WINDOW_DILATION = ${WINDOW_DILATION}u;
const WINDOW_WORDS = (WINDOW + 3u) / 4u;

override X_FLIP = 0u; // 0x80808080 makes unsigned bytes signed: 128 less
override FLOATS: bool = false; // the output is f32

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<Stored>;
@group(0) @binding(3) var<storage, read> bias: array<Bias>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;
@group(0) @binding(5) var<uniform> scaling: Scaling;
@group(0) @binding(6) var<uniform> params: Params;

// One element of the output; `planes` is where its group's channels begin in the input.
struct Place {
    h: u32,
    w: u32,
    channel: u32,
    planes: u32,
}

fn place_of(element: u32) -> Place {
    let channels = params.groups * params.out_channels;
    let row = element / params.out_size.y;
    let plane = row / params.out_size.x;
    let channel = plane % channels;
    let group = plane / channels * params.groups + channel / params.out_channels;
    return Place(
        row % params.out_size.x,
        element % params.out_size.y,
        channel,
        group * params.in_channels * params.in_size.x * params.in_size.y,
    );
}

fn weight_at(channel: u32, tap: u32, in_channel: u32) -> i32 {
    let byte = channel * scaling.row_bytes + tap * scaling.tap_bytes + in_channel;
    return signed_byte(weight[byte / 4u] ^ WEIGHT_FLIP, byte) - scaling.weight_zero;
}

// The index of the input under a tap; out of range if there is none.
fn input_index(dim: u32, out: u32, tap: u32) -> i32 {
    let reach = i32(tap) * params.dilation[dim];
    if (!TRANSPOSED) {
        return i32(out) * params.stride[dim] - params.padding[dim] + reach;
    }
    let ahead = i32(out) + params.padding[dim] - reach;
    return select(-1, ahead / params.stride[dim], ahead >= 0 && ahead % params.stride[dim] == 0);
}

fn sum_at(place: Place) -> i32 {
    var sum = 0;
    for (var tap_h = 0u; tap_h < params.kernel.x; tap_h++) {
        let h = input_index(0u, place.h, tap_h);
        if (u32(h) >= params.in_size.x) {
            continue;
        }
        for (var tap_w = 0u; tap_w < params.kernel.y; tap_w++) {
            let w = input_index(1u, place.w, tap_w);
            if (u32(w) >= params.in_size.y) {
                continue;
            }
            for (var channel = 0u; channel < params.in_channels; channel++) {
                let byte = place.planes + (channel * params.in_size.x + u32(h)) * params.in_size.y + u32(w);
                let value = signed_byte(input[byte / 4u] ^ X_FLIP, byte) - scaling.x_zero;
                sum += value * weight_at(place.channel, tap_h * params.kernel.y + tap_w, channel);
            }
        }
    }
    return sum;
}

// x - zero of the inputs from `w` on in a row that begins at `row_at`; 0 outside of the row.
fn load_window(row_at: u32, w: i32) -> array<i32, max(WINDOW, 1u)> {
    let first = i32(row_at) + w;
    var words: array<u32, max(WINDOW_WORDS, 1u)>;
    var low = input[max(first >> 2u, 0)];
    for (var i = 0u; i < WINDOW_WORDS; i++) {
        let high = input[max((first >> 2u) + i32(i) + 1, 0)];
        words[i] = joined(low, high, u32(first & 3)) ^ X_FLIP;
        low = high;
    }
    var window: array<i32, max(WINDOW, 1u)>;
    for (var i = 0u; i < WINDOW; i++) {
        let inside = u32(w + i32(i)) < params.in_size.y;
        window[i] = select(0, signed_byte(words[i / 4u], i) - scaling.x_zero, inside);
    }
    return window;
}

fn sums_from(place: Place) -> vec4<i32> {
    let first = i32(place.w) * params.stride.y - params.padding.y;
    var sums = vec4<i32>();
    for (var channel = 0u; channel < params.in_channels; channel++) {
        for (var tap_h = 0u; tap_h < params.kernel.x; tap_h++) {
            let h = input_index(0u, place.h, tap_h);
            if (u32(h) >= params.in_size.x) {
                continue;
            }
            let window = load_window(place.planes + (channel * params.in_size.x + u32(h)) * params.in_size.y, first);
            for (var tap = 0u; tap < WINDOW_TAPS; tap++) {
                let i = tap * WINDOW_DILATION;
                let values = vec4<i32>(
                    window[i],
                    window[i + WINDOW_STRIDE],
                    window[i + 2u * WINDOW_STRIDE],
                    window[i + 3u * WINDOW_STRIDE],
                );
                sums += values * weight_at(place.channel, tap_h * params.kernel.y + tap, channel);
            }
        }
    }
    return sums;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    let elements = params.batch * params.groups * params.out_channels * params.out_size.x * params.out_size.y;
    if (word * 4u >= elements) {
        return;
    }
    var sums = vec4<i32>();
    var scale = vec4<f32>();
    var offset = vec4<Bias>();
    if (WINDOW > 0u) {
        let place = place_of(word * 4u);
        sums = sums_from(place);
        scale = vec4<f32>(scale_of(place.channel));
        offset = vec4<Bias>(bias_of(place.channel));
    } else {
        for (var i = 0u; i < 4u; i++) {
            let place = place_of(min(word * 4u + i, elements - 1u));
            sums[i] = sum_at(place);
            scale[i] = scale_of(place.channel);
            offset[i] = bias_of(place.channel);
        }
    }
    let values = scaled(sums, scale, offset);
    if (!FLOATS) {
        output[word] = requantized(values);
        return;
    }
    for (var i = 0u; i < min(4u, elements - word * 4u); i++) {
        output[word * 4u + i] = bitcast<u32>(values[i]);
    }
}
