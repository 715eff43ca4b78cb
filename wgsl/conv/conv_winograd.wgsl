// Convolution of 3 x 3 taps with stride 1 in one group by Winograd's F(2 x 2, 3 x 3): 2 x 2 outputs take 16
// products of each input channel instead of 36. The 4 x 4 inputs under them (a patch) and the weights
// are transformed as they are loaded, multiplied element by element and added up over the channels; the
// 4 x 4 sums are transformed back into 2 x 2 outputs.
//
// A workgroup makes TILE channels of TILE patches. An invocation has 4 x 4 pairs of a channel and a patch, and of
// each pair one line of the 4 x 4 sums. A small tile does not need all invocations, so they form slices that add
// up different input channels. Lines and slices meet in workgroup memory at the end.

// use lib/conv/conv.wgsl
// use lib/math.wgsl
// use lib/conv/conv_epilogue.wgsl

const TILE = ${TILE}u;
const THREADS = 256u;
const SIDE = TILE / 4u; // invocations along a side of the tile
const SLICE_THREADS = SIDE * SIDE * 4u;
const SLICES = THREADS / SLICE_THREADS;
// Of a slice, so that each of its invocations loads one patch or the weights of one channel.
const STEP = SLICE_THREADS / (2u * TILE);
const PLANE = 4u * TILE; // lines of one input channel
const OPERAND = STEP * PLANE;
const LINE = TILE * SIDE; // of all pairs, four patches at a time

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<Stored>;
@group(0) @binding(2) var<storage, read> bias: array<Stored>;
@group(0) @binding(3) var<storage, read> beside: array<Stored>; // see lib/conv/conv_epilogue.wgsl
@group(0) @binding(4) var<storage, read_write> output: array<Stored>;
@group(0) @binding(5) var<uniform> params: Params;

// Per slice the patches (input channel, line, patch) and behind them the weights (input channel, line,
// channel); later one column of outputs of all pairs (slice, line, channel, four patches).
var<workgroup> quads: array<vec4<f32>, SLICES * 2u * OPERAND>;

// What this invocation loads: where it begins, and for a patch where its lines and columns are in an input
// channel. Those outside are zeros, and the nearest ones inside are read in their place.
var<private> of_weights: bool;
var<private> start: u32;
var<private> lines_at: vec4<u32>;
var<private> columns_at: vec4<u32>;
var<private> lines_exist: vec4<bool>;
var<private> columns_exist: vec4<bool>;

// Patches down and across an image.
fn patches_of_image() -> vec2<u32> {
    return (params.out_size + vec2<u32>(1u)) / 2u;
}

fn find_patch(number: u32) {
    let patches = patches_of_image();
    let patch_number = min(number, params.batch * patches.x * patches.y - 1u);
    let image = patch_number / (patches.x * patches.y);
    let four = vec4<i32>(0, 1, 2, 3);
    let h = i32(patch_number / patches.y % patches.x * 2u) - params.padding.x + four;
    let w = i32(patch_number % patches.y * 2u) - params.padding.y + four;
    let last = vec2<i32>(params.in_size) - 1;
    start = image * params.in_channels * params.in_size.x * params.in_size.y;
    lines_at = vec4<u32>(clamp(h, vec4<i32>(), vec4<i32>(last.x))) * params.in_size.y;
    columns_at = vec4<u32>(clamp(w, vec4<i32>(), vec4<i32>(last.y)));
    lines_exist = vec4<u32>(h) < vec4<u32>(params.in_size.x);
    columns_exist = vec4<u32>(w) < vec4<u32>(params.in_size.y);
}

fn line_at(at: u32, exists: bool) -> vec4<f32> {
    let four = at + columns_at;
    let found = vec4<f32>(vec4<Stored>(input[four.x], input[four.y], input[four.z], input[four.w]));
    return select(vec4<f32>(), found, columns_exist & vec4<bool>(exists));
}

fn taps_at(at: u32) -> vec4<f32> {
    return vec4<f32>(vec4<Stored>(weight[at], weight[at + 1u], weight[at + 2u], Stored()));
}

// Four lines of a patch, or three of weights.
fn fetch(channel: u32) -> mat4x4<f32> {
    if (channel >= params.in_channels) {
        return mat4x4<f32>();
    }
    if (of_weights) {
        let at = start + channel * 9u;
        return mat4x4<f32>(taps_at(at), taps_at(at + 3u), taps_at(at + 6u), vec4<f32>());
    }
    let at = start + channel * params.in_size.x * params.in_size.y;
    return mat4x4<f32>(
        line_at(at + lines_at.x, lines_exist.x),
        line_at(at + lines_at.y, lines_exist.y),
        line_at(at + lines_at.z, lines_exist.z),
        line_at(at + lines_at.w, lines_exist.w),
    );
}

fn patch_line(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(x.x - x.z, x.y + x.z, x.z - x.y, x.y - x.w);
}

fn weights_line(x: vec4<f32>) -> vec4<f32> {
    let outer = 0.5 * (x.x + x.z);
    let middle = 0.5 * x.y;
    return vec4<f32>(x.x, outer + middle, outer - middle, x.z);
}

fn transformed(x: mat4x4<f32>) -> mat4x4<f32> {
    if (of_weights) {
        let outer = 0.5 * (x[0] + x[2]);
        let middle = 0.5 * x[1];
        return mat4x4<f32>(
            weights_line(x[0]), weights_line(outer + middle), weights_line(outer - middle), weights_line(x[2]),
        );
    }
    return mat4x4<f32>(
        patch_line(x[0] - x[2]), patch_line(x[1] + x[2]), patch_line(x[2] - x[1]), patch_line(x[1] - x[3]),
    );
}

// A line of one channel with those of four patches.
fn add_products(sums: mat4x4<f32>, weights: vec4<f32>, x: mat4x4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        fma(weights, x[0], sums[0]),
        fma(weights, x[1], sums[1]),
        fma(weights, x[2], sums[2]),
        fma(weights, x[3], sums[3]),
    );
}

// Both columns of outputs that a line of sums has a part in, each of four patches.
struct Columns {
    left: vec4<f32>,
    right: vec4<f32>,
}

fn columns_of(sums: mat4x4<f32>) -> Columns {
    let m = transpose(sums);
    return Columns(m[0] + m[1] + m[2], m[1] - m[2] - m[3]);
}

// One column of outputs of four patches, from all lines and slices.
struct Pixels {
    above: vec4<f32>,
    below: vec4<f32>,
}

fn met(at: u32) -> Pixels {
    var lines = mat4x4<f32>();
    for (var slice = 0u; slice < SLICES; slice++) {
        let line = at + slice * 4u * LINE;
        lines += mat4x4<f32>(quads[line], quads[line + LINE], quads[line + 2u * LINE], quads[line + 3u * LINE]);
    }
    return Pixels(lines[0] + lines[1] + lines[2], lines[1] - lines[2] - lines[3]);
}

// Two outputs above and two below.
fn store(channel: u32, patch_number: u32, value: vec4<f32>) {
    let patches = patches_of_image();
    let image = patch_number / (patches.x * patches.y);
    if (channel >= params.out_channels || image >= params.batch) {
        return;
    }
    let h = patch_number / patches.y % patches.x * 2u;
    let w = patch_number % patches.y * 2u;
    let at = ((image * params.out_channels + channel) * params.out_size.x + h) * params.out_size.y + w;
    let has_right = w + 1u < params.out_size.y;
    let has_below = h + 1u < params.out_size.x;
    let right = select(0u, 1u, has_right);
    let below = select(0u, params.out_size.y, has_below);
    let four = at + vec4<u32>(0u, right, below, below + right);
    var result = value;
    if (HAS_BIAS) {
        result += f32(bias[channel]);
    }
    var y = Vec();
    if (BESIDE == PER_ELEMENT) {
        let found = vec4<f32>(vec4<Stored>(beside[four.x], beside[four.y], beside[four.z], beside[four.w]));
        y = select(Vec(), found, four < vec4<u32>(params.beside));
    }
    if (BESIDE == PER_CHANNEL) {
        y = Vec(f32(beside[channel]));
    }
    result = ending(result, y, params.low, params.high);
    output[four.x] = Stored(result.x);
    if (has_right) { output[four.y] = Stored(result.y); }
    if (has_below) { output[four.z] = Stored(result.z); }
    if (has_right && has_below) { output[four.w] = Stored(result.w); }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // Rows of channels count fastest; `columns` are tiles of patches.
    let index = workgroup.x + workgroup.y * workgroups.x;
    let first_channel = index % params.rows * TILE;
    let first_patch = index / params.rows * TILE;
    if (index / params.rows >= params.columns) {
        return;
    }
    let slice = thread / SLICE_THREADS;
    let member = thread % SLICE_THREADS;

    // The first half of a slice loads patches, the other one weights.
    let item = member % (SLICE_THREADS / 2u);
    of_weights = member >= SLICE_THREADS / 2u;
    var step = item / TILE;
    var kept_at = slice * 2u * OPERAND + item / TILE * PLANE + item % TILE;
    if (of_weights) {
        let channel = min(first_channel + item / STEP, params.out_channels - 1u);
        start = channel * params.in_channels * 9u;
        step = item % STEP;
        kept_at = slice * 2u * OPERAND + OPERAND + item % STEP * PLANE + item / STEP;
    } else {
        find_patch(first_patch + item % TILE);
    }

    let line = member / (SIDE * SIDE);
    let down = member % (SIDE * SIDE) / SIDE; // channels down, down + SIDE, ..
    let across = member % SIDE; // patches across, across + SIDE, ..
    let patches_at = slice * 2u * OPERAND + line * TILE + across;
    let weights_at = slice * 2u * OPERAND + OPERAND + line * TILE + down;
    var sums0 = mat4x4<f32>();
    var sums1 = mat4x4<f32>();
    var sums2 = mat4x4<f32>();
    var sums3 = mat4x4<f32>();
    var next = fetch(slice * STEP + step);
    for (var first = 0u; first < params.in_channels; first += SLICES * STEP) {
        let lines = transformed(next);
        quads[kept_at] = lines[0];
        quads[kept_at + TILE] = lines[1];
        quads[kept_at + 2u * TILE] = lines[2];
        quads[kept_at + 3u * TILE] = lines[3];
        workgroupBarrier();
        next = fetch(first + (SLICES + slice) * STEP + step);
        for (var k = 0u; k < STEP; k++) {
            let p = patches_at + k * PLANE;
            let w = weights_at + k * PLANE;
            let x = mat4x4<f32>(quads[p], quads[p + SIDE], quads[p + 2u * SIDE], quads[p + 3u * SIDE]);
            sums0 = add_products(sums0, quads[w], x);
            sums1 = add_products(sums1, quads[w + SIDE], x);
            sums2 = add_products(sums2, quads[w + 2u * SIDE], x);
            sums3 = add_products(sums3, quads[w + 3u * SIDE], x);
        }
        workgroupBarrier();
    }

    let columns0 = columns_of(sums0);
    let columns1 = columns_of(sums1);
    let columns2 = columns_of(sums2);
    let columns3 = columns_of(sums3);
    let at = ((slice * 4u + line) * TILE + down) * SIDE + across;
    quads[at] = columns0.left;
    quads[at + SIDE * SIDE] = columns1.left;
    quads[at + 2u * SIDE * SIDE] = columns2.left;
    quads[at + 3u * SIDE * SIDE] = columns3.left;
    workgroupBarrier();
    let left = met(thread % LINE);
    workgroupBarrier();
    quads[at] = columns0.right;
    quads[at + SIDE * SIDE] = columns1.right;
    quads[at + 2u * SIDE * SIDE] = columns2.right;
    quads[at + 3u * SIDE * SIDE] = columns3.right;
    workgroupBarrier();
    if (thread >= LINE) {
        return;
    }
    let right = met(thread);
    let channel = first_channel + thread / SIDE;
    let patch_number = first_patch + thread % SIDE;
    store(channel, patch_number, vec4<f32>(left.above.x, right.above.x, left.below.x, right.below.x));
    store(channel, patch_number + SIDE, vec4<f32>(left.above.y, right.above.y, left.below.y, right.below.y));
    store(channel, patch_number + 2u * SIDE, vec4<f32>(left.above.z, right.above.z, left.below.z, right.below.z));
    store(channel, patch_number + 3u * SIDE, vec4<f32>(left.above.w, right.above.w, left.below.w, right.below.w));
}
