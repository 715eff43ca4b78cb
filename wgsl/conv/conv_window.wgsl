// Convolution of 3 x 3 taps with stride 1 in one group: the inputs under a block of pixels are staged
// in workgroup memory once, for all taps; weights are read directly.
//
// A workgroup computes ROW_QUADS * 4 channels of LINES x WIDTH quads of pixels. Its invocations form
// slices, each of which adds up four input channels at a time; their sums meet at the end. An invocation
// has four channels of eight neighbouring pixels.

// use lib/conv/conv.wgsl
// use lib/math.wgsl
// use lib/conv/conv_epilogue.wgsl

const ROW_QUADS = ${ROW_QUADS}u;
const LINES = ${LINES}u;
const WIDTH = ${WIDTH}u;
const THREADS = 128u;
const PIXEL_QUADS = LINES * WIDTH;
const SLICE_THREADS = ROW_QUADS * PIXEL_QUADS / 2u;
const SLICES = THREADS / SLICE_THREADS;
const TILE_QUADS = ROW_QUADS * 4u * PIXEL_QUADS;
// Quads of one channel; the last quad of a line is partly outside.
const LINE_QUADS = WIDTH + 1u;
const PATCH_QUADS = (LINES + 2u) * LINE_QUADS;
const CHANNELS = SLICES * 4u; // at a time
const FETCHED = CHANNELS * PATCH_QUADS; // up to four per invocation

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<Stored>>;
@group(0) @binding(2) var<storage, read> bias: array<Stored>;
@group(0) @binding(3) var<storage, read> residual: array<Stored>; // see lib/conv/conv_epilogue.wgsl
@group(0) @binding(4) var<storage, read_write> output: array<Stored>;
@group(0) @binding(5) var<uniform> params: Params;

// The patches of all channels; later the sums of all slices.
var<workgroup> quads: array<vec4<f32>, max(FETCHED, SLICES * TILE_QUADS)>;

var<private> image_at: u32; // in the input
var<private> corner: vec2<i32>; // of the block's inputs

fn fetch(index: u32, first_channel: u32) -> vec4<f32> {
    let channel = first_channel + index / PATCH_QUADS;
    let line = index % PATCH_QUADS / LINE_QUADS;
    let h = corner.x + i32(line);
    let w = vec4<i32>(corner.y + i32(index % LINE_QUADS) * 4) + vec4<i32>(0, 1, 2, 3);
    var value = vec4<f32>();
    if (index >= FETCHED || channel >= params.in_channels || u32(h) >= params.in_size.x) {
        return value;
    }
    let at = vec4<u32>(i32(image_at + (channel * params.in_size.x + u32(h)) * params.in_size.y) + w);
    let inside = vec4<u32>(w) < vec4<u32>(params.in_size.y);
    if (inside.x) { value.x = f32(input[at.x]); }
    if (inside.y) { value.y = f32(input[at.y]); }
    if (inside.z) { value.z = f32(input[at.z]); }
    if (inside.w) { value.w = f32(input[at.w]); }
    return value;
}

fn keep(index: u32, value: vec4<f32>) {
    if (index < FETCHED) {
        quads[index] = value;
    }
}

// The inputs of eight outputs under each of the three taps of a line.
struct Line {
    left: vec4<f32>,
    middle: vec4<f32>,
    right: vec4<f32>,
    next_left: vec4<f32>,
    next_middle: vec4<f32>,
    next_right: vec4<f32>,
}

fn line_at(at: u32) -> Line {
    let a = quads[at];
    let b = quads[at + 1u];
    let c = quads[at + 2u];
    return Line(
        a, vec4<f32>(a.yzw, b.x), vec4<f32>(a.zw, b.xy),
        b, vec4<f32>(b.yzw, c.x), vec4<f32>(b.zw, c.xy),
    );
}

// Of eight pixels.
struct Sums {
    first: vec4<f32>,
    second: vec4<f32>,
}

fn weights_at(quad: u32) -> vec4<f32> {
    return vec4<f32>(weight[quad]);
}

// Twelve taps of one channel, four lines of three.
fn add_lines(sums: Sums, quad: u32, a: Line, b: Line, c: Line, d: Line) -> Sums {
    let first = weights_at(quad);
    let second = weights_at(quad + 1u);
    let third = weights_at(quad + 2u);
    var result = sums;
    result.first = fma(vec4<f32>(first.x), a.left, result.first);
    result.second = fma(vec4<f32>(first.x), a.next_left, result.second);
    result.first = fma(vec4<f32>(first.y), a.middle, result.first);
    result.second = fma(vec4<f32>(first.y), a.next_middle, result.second);
    result.first = fma(vec4<f32>(first.z), a.right, result.first);
    result.second = fma(vec4<f32>(first.z), a.next_right, result.second);
    result.first = fma(vec4<f32>(first.w), b.left, result.first);
    result.second = fma(vec4<f32>(first.w), b.next_left, result.second);
    result.first = fma(vec4<f32>(second.x), b.middle, result.first);
    result.second = fma(vec4<f32>(second.x), b.next_middle, result.second);
    result.first = fma(vec4<f32>(second.y), b.right, result.first);
    result.second = fma(vec4<f32>(second.y), b.next_right, result.second);
    result.first = fma(vec4<f32>(second.z), c.left, result.first);
    result.second = fma(vec4<f32>(second.z), c.next_left, result.second);
    result.first = fma(vec4<f32>(second.w), c.middle, result.first);
    result.second = fma(vec4<f32>(second.w), c.next_middle, result.second);
    result.first = fma(vec4<f32>(third.x), c.right, result.first);
    result.second = fma(vec4<f32>(third.x), c.next_right, result.second);
    result.first = fma(vec4<f32>(third.y), d.left, result.first);
    result.second = fma(vec4<f32>(third.y), d.next_left, result.second);
    result.first = fma(vec4<f32>(third.z), d.middle, result.first);
    result.second = fma(vec4<f32>(third.z), d.next_middle, result.second);
    result.first = fma(vec4<f32>(third.w), d.right, result.first);
    result.second = fma(vec4<f32>(third.w), d.next_right, result.second);
    return result;
}

fn store(image: u32, channel: u32, h: u32, w: u32, value: vec4<f32>) {
    if (channel >= params.out_channels || h >= params.out_size.x || w >= params.out_size.y) {
        return;
    }
    let at = ((image * params.out_channels + channel) * params.out_size.x + h) * params.out_size.y + w;
    var result = value;
    if (HAS_BIAS) {
        result += f32(bias[channel]);
    }
    let last = params.out_size.y - 1u - w;
    var y = Vec();
    if (RESIDUAL == PER_ELEMENT) {
        let four = at + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
        let found = vec4<f32>(vec4<Stored>(residual[four.x], residual[four.y], residual[four.z], residual[four.w]));
        y = select(Vec(), found, four < vec4<u32>(params.residual));
    }
    if (RESIDUAL == PER_CHANNEL) {
        y = Vec(f32(residual[channel]));
    }
    result = epilogue(result, y, params.low, params.high);
    output[at] = Stored(result.x);
    if (last > 0u) { output[at + 1u] = Stored(result.y); }
    if (last > 1u) { output[at + 2u] = Stored(result.z); }
    if (last > 2u) { output[at + 3u] = Stored(result.w); }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // Rows of channels count fastest; `columns` are blocks across, `splits` blocks down.
    let index = workgroup.x + workgroup.y * workgroups.x;
    let first_row = index % params.rows * ROW_QUADS * 4u;
    let block = index / params.rows;
    let first_w = block % params.columns * WIDTH * 4u;
    let first_h = block / params.columns % params.splits * LINES;
    let image = block / (params.columns * params.splits);
    if (image >= params.batch) {
        return;
    }
    image_at = image * params.in_channels * params.in_size.x * params.in_size.y;
    corner = vec2<i32>(vec2<u32>(first_h, first_w)) - params.padding;

    let slice = thread / SLICE_THREADS;
    let member = thread % SLICE_THREADS;
    let pixel_quad = member % (PIXEL_QUADS / 2u) * 2u; // and the next one
    let row_quad = member / (PIXEL_QUADS / 2u);
    let lines_at = slice * 4u * PATCH_QUADS + pixel_quad / WIDTH * LINE_QUADS + pixel_quad % WIDTH;
    let rows = min(first_row + row_quad * 4u + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.out_channels - 1u));
    let rows_at = rows * (params.in_channels / 4u * 9u);
    var row0: Sums;
    var row1: Sums;
    var row2: Sums;
    var row3: Sums;
    var next0 = fetch(thread, 0u);
    var next1 = fetch(thread + THREADS, 0u);
    var next2 = fetch(thread + 2u * THREADS, 0u);
    var next3 = fetch(thread + 3u * THREADS, 0u);
    var next4 = fetch(thread + 4u * THREADS, 0u);
    for (var channel = 0u; channel < params.in_channels; channel += CHANNELS) {
        keep(thread, next0);
        keep(thread + THREADS, next1);
        keep(thread + 2u * THREADS, next2);
        keep(thread + 3u * THREADS, next3);
        keep(thread + 4u * THREADS, next4);
        workgroupBarrier();
        next0 = fetch(thread, channel + CHANNELS);
        if (FETCHED > THREADS) { next1 = fetch(thread + THREADS, channel + CHANNELS); }
        if (FETCHED > 2u * THREADS) { next2 = fetch(thread + 2u * THREADS, channel + CHANNELS); }
        if (FETCHED > 3u * THREADS) { next3 = fetch(thread + 3u * THREADS, channel + CHANNELS); }
        if (FETCHED > 4u * THREADS) { next4 = fetch(thread + 4u * THREADS, channel + CHANNELS); }
        let own = channel + slice * 4u;
        if (own < params.in_channels) {
            let weights = rows_at + own / 4u * 9u;
            for (var four = 0u; four < 3u; four++) { // lines of four channels: twelve
                let line = four * 4u + vec4<u32>(0u, 1u, 2u, 3u);
                let at = lines_at + line / 3u * PATCH_QUADS + line % 3u * LINE_QUADS;
                let a = line_at(at.x);
                let b = line_at(at.y);
                let c = line_at(at.z);
                let d = line_at(at.w);
                row0 = add_lines(row0, weights.x + four * 3u, a, b, c, d);
                row1 = add_lines(row1, weights.y + four * 3u, a, b, c, d);
                row2 = add_lines(row2, weights.z + four * 3u, a, b, c, d);
                row3 = add_lines(row3, weights.w + four * 3u, a, b, c, d);
            }
        }
        workgroupBarrier();
    }

    let at = slice * TILE_QUADS + row_quad * 4u * PIXEL_QUADS + pixel_quad;
    quads[at] = row0.first;
    quads[at + 1u] = row0.second;
    quads[at + PIXEL_QUADS] = row1.first;
    quads[at + PIXEL_QUADS + 1u] = row1.second;
    quads[at + 2u * PIXEL_QUADS] = row2.first;
    quads[at + 2u * PIXEL_QUADS + 1u] = row2.second;
    quads[at + 3u * PIXEL_QUADS] = row3.first;
    quads[at + 3u * PIXEL_QUADS + 1u] = row3.second;
    workgroupBarrier();
    for (var i = thread; i < TILE_QUADS; i += THREADS) {
        var sum = quads[i];
        for (var other = 1u; other < SLICES; other++) {
            sum += quads[other * TILE_QUADS + i];
        }
        let place = i % PIXEL_QUADS;
        store(image, first_row + i / PIXEL_QUADS, first_h + place / WIDTH, first_w + place % WIDTH * 4u, sum);
    }
}
