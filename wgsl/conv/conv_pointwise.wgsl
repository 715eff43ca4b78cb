// Convolution with one tap, stride 1, no padding and channels of whole quads: a plain GEMM,
// out (channel, pixel) = weights (channel, k) * input (k, pixel), four pixels at once.

// use lib/conv/conv.wgsl
// use lib/conv/conv_tile.wgsl
// use lib/math.wgsl
// use lib/conv/conv_epilogue.wgsl

override SPLIT: bool;
override WHOLE_WEIGHTS: bool; // rows of weights are whole quads

alias Stored = ${FLOAT};
alias StoredWeight = ${WEIGHT}; // a quad if rows of weights are whole quads, else an element
alias Out = ${OUT}; // Stored; f32 for parts of sums

@group(0) @binding(0) var<storage, read> input: array<vec4<Stored>>;
@group(0) @binding(1) var<storage, read> weight: array<StoredWeight>;
@group(0) @binding(2) var<storage, read> bias: array<Stored>;
@group(0) @binding(3) var<storage, read> residual: array<vec4<Stored>>; // see lib/conv/conv_epilogue.wgsl
@group(0) @binding(4) var<storage, read_write> output: array<vec4<Out>>;
@group(0) @binding(5) var<uniform> params: Params;

// The tile of the workgroup, and the quad of pixels of this invocation.
var<private> group: u32;
var<private> split: u32;
var<private> first_row: u32;
var<private> high_k: u32;
var<private> channel_quads: u32;
var<private> quad_in: u32; // in the group's first channel
var<private> quad_out: u32;
var<private> quad_exists: bool;

fn load_columns(k: u32) -> vec4<f32> {
    if (k >= high_k || !quad_exists) {
        return vec4<f32>();
    }
    return vec4<f32>(input[quad_in + k * channel_quads]);
}

// Four rows of weights at one k.
fn weights_of(k: u32, quad: u32) -> vec4<f32> {
    var value = vec4<f32>();
    if (k >= high_k) {
        return value;
    }
    let row = first_row + quad * 4u;
    var step = params.in_channels;
    var at = (group * params.out_channels + row) * step + k;
    if (TRANSPOSED) { // weights are (in channel, out channel)
        step = 1u;
        at = (group * params.in_channels + k) * params.out_channels + row;
    }
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
        let terms = params.in_channels;
        let row = first_row + quad * 4u;
        let rows = min(row + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.out_channels - 1u));
        let at = (group * params.out_channels + rows) * terms + k;
        return transpose(mat4x4<f32>(weight_run(at.x), weight_run(at.y), weight_run(at.z), weight_run(at.w)));
    }
    return mat4x4<f32>(weights_of(k, quad), weights_of(k + 1u, quad), weights_of(k + 2u, quad), weights_of(k + 3u, quad));
}

fn store(row: u32, value: vec4<f32>) {
    if (first_row + row >= params.out_channels || !quad_exists) {
        return;
    }
    let channel = group * params.out_channels + first_row + row;
    let at = quad_out + channel * channel_quads;
    if (SPLIT) {
        output[split * params.batch * params.groups * params.out_channels * channel_quads + at] = vec4<Out>(value);
        return;
    }
    var result = value;
    if (HAS_BIAS) {
        result += f32(bias[channel]);
    }
    var y = Vec();
    if (RESIDUAL == PER_ELEMENT && at * 4u < params.residual) { // channels are whole quads
        y = vec4<f32>(residual[at]);
    }
    if (RESIDUAL == PER_CHANNEL) {
        y = Vec(f32(residual[channel / 4u][channel % 4u]));
    }
    output[at] = vec4<Out>(epilogue(result, y, params.low, params.high));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let job = job_of(workgroup.x + workgroup.y * workgroups.x);
    if (job.phase > 0u) {
        return;
    }
    group = job.group;
    split = job.split;
    first_row = job.row * TILE_ROWS;
    channel_quads = params.in_size.x * params.in_size.y / 4u;
    let quad = job.column * COLUMN_QUADS + column_quad(thread);
    let image = quad / channel_quads;
    let place = quad % channel_quads;
    quad_exists = image < params.batch;
    quad_in = (image * params.groups + group) * params.in_channels * channel_quads + place;
    quad_out = image * params.groups * params.out_channels * channel_quads + place;
    let k_begin = job.split * params.split_k;
    let k_end = min(k_begin + params.split_k, params.in_channels);
    high_k = k_end;
    multiply(thread, k_begin, k_end);
}
