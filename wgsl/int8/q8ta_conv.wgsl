// Convolution of int8 as a GEMM whose second matrix, the patches of the input, is never written:
// sums (channel, pixel) = weights (channel, k) * patches (k, pixel). A k is a word of four input
// channels under one tap; k = (word of channels, tap).
//
// A workgroup computes a tile of one group of channels and one phase. The input has its channels in
// words (q8ta_conv_pack.wgsl); with PLANES it is unpacked: each plane is whole words, and a tap
// covers just the pixel itself.

// use lib/conv/conv.wgsl
// use lib/conv/conv_pixels.wgsl
// use lib/quads.wgsl
// use lib/bytes.wgsl
// use lib/int8/int8.wgsl
// use lib/int8/int8_conv.wgsl
// use lib/int8/int8_tile.wgsl

const WEIGHTS_IN_ROWS = true;
override WEIGHT_ALIGNED: bool; // four channels under a tap are always a word
override PLANES: bool;
override X_FLIP = 0u; // of planes; 0x80808080 makes unsigned bytes signed
override FLOATS: bool; // the output is f32, which is requantized later

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<Stored>;
@group(0) @binding(3) var<storage, read> bias: array<Bias>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;
@group(0) @binding(5) var<uniform> scaling: Scaling;
@group(0) @binding(6) var<uniform> params: Params;

fn channel_words() -> u32 {
    return (params.in_channels + 3u) / 4u;
}

fn pixels_at(image: vec4<u32>, h: vec4<u32>, w: vec4<u32>) -> vec4<u32> {
    let plane = params.in_size.x * params.in_size.y;
    if (PLANES) {
        return (image * params.groups + group) * params.in_channels * plane + h * params.in_size.y + w;
    }
    return (image * params.groups + group) * channel_words() * plane;
}

// Four channels of four neighbouring pixels; missing channels have weights that are 0.
fn load_planes(k: u32) -> vec4<u32> {
    let plane = params.in_size.x * params.in_size.y;
    let channel = min(vec4<u32>(4u * k) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.in_channels - 1u));
    let at = (vec4<u32>(pixel_at.x) + channel * plane) / vec4<u32>(4u);
    return transposed_bytes(vec4<u32>(input[at.x], input[at.y], input[at.z], input[at.w]) ^ vec4<u32>(X_FLIP));
}

fn load_columns(k: u32) -> vec4<u32> {
    // The padding around an image is x's zero.
    var words = vec4<u32>(u32(scaling.x_zero & 0xff) * ONES);
    if (k >= high_k) {
        return words;
    }
    if (PLANES) {
        return load_planes(k);
    }
    let tap = k % (taps_h() * taps_w());
    let h = pixel_h + i32(tap / taps_w()) * axis_h.reach;
    let w = pixel_w + i32(tap % taps_w()) * axis_w.reach;
    let inside = (vec4<u32>(h) < vec4<u32>(params.in_size.x)) & (vec4<u32>(w) < vec4<u32>(params.in_size.y));
    let channels = k / (taps_h() * taps_w());
    let at = pixel_at + (channels * params.in_size.x + vec4<u32>(h)) * params.in_size.y + vec4<u32>(w);
    if (inside.x) { words.x = input[at.x]; }
    if (inside.y) { words.y = input[at.y]; }
    if (inside.z) { words.z = input[at.z]; }
    if (inside.w) { words.w = input[at.w]; }
    return words;
}

fn weight_word(byte: u32, count: u32) -> u32 {
    if (WEIGHT_ALIGNED) {
        return weight[byte / 4u] ^ WEIGHT_FLIP;
    }
    return first_bytes(joined(weight[byte / 4u], weight[byte / 4u + 1u], byte) ^ WEIGHT_FLIP, count);
}

fn load_rows(k: u32, quad: u32) -> vec4<u32> {
    if (k >= high_k) {
        return vec4<u32>();
    }
    var tap = k % (taps_h() * taps_w());
    if (TRANSPOSED) {
        let tap_h = axis_h.first_tap + tap / taps_w() * axis_h.tap_step;
        let tap_w = axis_w.first_tap + tap % taps_w() * axis_w.tap_step;
        tap = tap_h * KERNEL_W + tap_w;
    }
    let channel = k / (taps_h() * taps_w()) * 4u;
    let row = group * params.out_channels + first_row + quad * 4u;
    let at = row * scaling.row_bytes + tap * scaling.tap_bytes + channel;
    let count = params.in_channels - channel;
    return vec4<u32>(
        weight_word(at, count),
        weight_word(at + scaling.row_bytes, count),
        weight_word(at + 2u * scaling.row_bytes, count),
        weight_word(at + 3u * scaling.row_bytes, count),
    );
}

fn zero_of_row(row: u32) -> i32 {
    return scaling.x_zero;
}

fn finish(row: u32, sums: vec4<i32>) {
    if (first_row + row >= params.out_channels) {
        return;
    }
    let channel = group * params.out_channels + first_row + row;
    let values = scaled(sums, vec4<f32>(scale_of(channel)), vec4<Bias>(bias_of(channel)));
    let at = pixel_out + channel * params.out_size.x * params.out_size.y;
    if (FLOATS) {
        if (pixel_exists.x) { output[at.x] = bitcast<u32>(values.x); }
        if (pixel_exists.y) { output[at.y] = bitcast<u32>(values.y); }
        if (pixel_exists.z) { output[at.z] = bitcast<u32>(values.z); }
        if (pixel_exists.w) { output[at.w] = bitcast<u32>(values.w); }
    } else if (pixel_exists.x) {
        output[at.x / 4u] = requantized(values);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let job = job_of(workgroup.x + workgroup.y * workgroups.x);
    let h = phase_axis(0u, job.phase / params.phases.y);
    let w = phase_axis(1u, job.phase % params.phases.y);
    let pixels = params.batch * h.outputs * w.outputs;
    if (job.phase >= params.phases.x * params.phases.y || job.column * TILE_COLUMNS >= pixels) {
        return;
    }
    group = job.group;
    first_row = job.row * TILE_ROWS;
    axis_h = h;
    axis_w = w;
    let words = channel_words() * h.taps * w.taps;
    high_k = words;
    find_pixels(job.column * TILE_COLUMNS + column_quad(thread) * 4u, pixels);
    multiply(thread, words);
}
