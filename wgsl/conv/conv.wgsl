// Convolution as a GEMM whose second matrix, the patches of the input, is never written:
// out (channel, pixel) = weights (channel, k) * patches (k, pixel), k = (in channel, tap).
//
// A workgroup computes a tile of one group of channels and one phase. With SPLIT it adds up only a part
// of the sum, and conv_split_k_sum.wgsl adds the parts.

// use lib/conv/conv.wgsl
// use lib/conv/conv_pixels.wgsl
// use lib/conv/conv_tile.wgsl
// use lib/math.wgsl
// use lib/conv/conv_epilogue.wgsl

override SPLIT: bool;
override WHOLE_WEIGHTS: bool; // rows of weights are whole quads

alias Stored = ${FLOAT};
alias StoredWeight = ${WEIGHT}; // a quad if rows of weights are whole quads, else an element
alias Out = ${OUT}; // Stored; f32 for parts of sums

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<StoredWeight>;
@group(0) @binding(2) var<storage, read> bias: array<Stored>;
@group(0) @binding(3) var<storage, read> residual: array<Stored>; // see lib/conv/conv_epilogue.wgsl
@group(0) @binding(4) var<storage, read_write> output: array<Out>;
@group(0) @binding(5) var<uniform> params: Params;

var<private> split: u32;

fn pixels_at(image: vec4<u32>, h: vec4<u32>, w: vec4<u32>) -> vec4<u32> {
    return (image * params.groups + group) * params.in_channels * params.in_size.x * params.in_size.y;
}

fn load_columns(k: u32) -> vec4<f32> {
    var value = vec4<f32>();
    if (k >= high_k) {
        return value;
    }
    let tap = k % (taps_h() * taps_w());
    let h = pixel_h + i32(tap / taps_w()) * axis_h.reach;
    let w = pixel_w + i32(tap % taps_w()) * axis_w.reach;
    let inside = (vec4<u32>(h) < vec4<u32>(params.in_size.x)) & (vec4<u32>(w) < vec4<u32>(params.in_size.y));
    let channel = k / (taps_h() * taps_w());
    let at = pixel_at + (channel * params.in_size.x + vec4<u32>(h)) * params.in_size.y + vec4<u32>(w);
    if (inside.x) { value.x = f32(input[at.x]); }
    if (inside.y) { value.y = f32(input[at.y]); }
    if (inside.z) { value.z = f32(input[at.z]); }
    if (inside.w) { value.w = f32(input[at.w]); }
    return value;
}

// Four rows of weights at one k.
fn weights_of(k: u32, quad: u32) -> vec4<f32> {
    var value = vec4<f32>();
    if (k >= high_k) {
        return value;
    }
    let kernel_size = KERNEL_H * KERNEL_W;
    var step = params.in_channels * kernel_size;
    var at = group * params.out_channels * step + k;
    if (TRANSPOSED) { // weights are (in channel, out channel, tap)
        let channel = group * params.in_channels + k / (taps_h() * taps_w());
        let tap = k % (taps_h() * taps_w());
        let tap_h = axis_h.first_tap + tap / taps_w() * axis_h.tap_step;
        let tap_w = axis_w.first_tap + tap % taps_w() * axis_w.tap_step;
        at = channel * params.out_channels * kernel_size + tap_h * KERNEL_W + tap_w;
        step = kernel_size;
    }
    let row = first_row + quad * 4u;
    at += row * step;
    if (row < params.out_channels) { value.x = weight_at(at); }
    if (row + 1u < params.out_channels) { value.y = weight_at(at + step); }
    if (row + 2u < params.out_channels) { value.z = weight_at(at + 2u * step); }
    if (row + 3u < params.out_channels) { value.w = weight_at(at + 3u * step); }
    return value;
}

fn weight_at(at: u32) -> f32 { return f32(${WEIGHT_AT}); }
fn weight_run(at: u32) -> vec4<f32> { return ${WEIGHT_RUN}; } // four k; only if rows are whole quads

fn load_weights(k: u32, quad: u32) -> mat4x4<f32> {
    if (WHOLE_WEIGHTS) {
        if (k >= high_k) {
            return mat4x4<f32>();
        }
        let terms = params.in_channels * KERNEL_H * KERNEL_W;
        let row = first_row + quad * 4u;
        let rows = min(row + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.out_channels - 1u));
        let at = (group * params.out_channels + rows) * terms + k;
        return transpose(mat4x4<f32>(weight_run(at.x), weight_run(at.y), weight_run(at.z), weight_run(at.w)));
    }
    return mat4x4<f32>(weights_of(k, quad), weights_of(k + 1u, quad), weights_of(k + 2u, quad), weights_of(k + 3u, quad));
}

fn store(row: u32, value: vec4<f32>) {
    if (first_row + row >= params.out_channels) {
        return;
    }
    let channel = group * params.out_channels + first_row + row;
    let channel_size = params.out_size.x * params.out_size.y;
    var at = pixel_out + channel * channel_size;
    var result = value;
    if (SPLIT) {
        at += split * part_size(params.batch * params.groups * params.out_channels * channel_size);
    } else {
        if (HAS_BIAS) {
            result += f32(bias[channel]);
        }
        var y = Vec();
        if (RESIDUAL == PER_ELEMENT) {
            let found = vec4<f32>(vec4<Stored>(residual[at.x], residual[at.y], residual[at.z], residual[at.w]));
            y = select(Vec(), found, at < vec4<u32>(params.residual));
        }
        if (RESIDUAL == PER_CHANNEL) {
            y = Vec(f32(residual[channel]));
        }
        result = epilogue(result, y, params.low, params.high);
    }
    if (pixel_exists.x) { output[at.x] = Out(result.x); }
    if (pixel_exists.y) { output[at.y] = Out(result.y); }
    if (pixel_exists.z) { output[at.z] = Out(result.z); }
    if (pixel_exists.w) { output[at.w] = Out(result.w); }
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
    split = job.split;
    first_row = job.row * TILE_ROWS;
    axis_h = h;
    axis_w = w;
    let k_begin = job.split * params.split_k;
    let k_end = min(k_begin + params.split_k, params.in_channels * h.taps * w.taps);
    high_k = k_end;
    find_pixels(job.column * TILE_COLUMNS + column_quad(thread) * 4u, pixels);
    multiply(thread, k_begin, k_end);
}
