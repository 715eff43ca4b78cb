// The params of a convolution, and which inputs an output reads.
//
// Output o reads the inputs o * stride - padding + tap * dilation. In a transposed convolution it reads
// every input i with i * stride + tap * dilation = o + padding. Outputs that lie a stride apart, a phase,
// share their taps: a phase is a plain convolution of stride 1 whose few taps count backwards, so nothing
// is multiplied with the zeros between the inputs.
// Pairs are (height, width).

struct Params {
    batch: u32,
    groups: u32,
    in_channels: u32, // of one group
    out_channels: u32, // of one group
    in_size: vec2<u32>,
    out_size: vec2<u32>,
    kernel: vec2<u32>,
    stride: vec2<i32>,
    padding: vec2<i32>,
    dilation: vec2<i32>,
    phases: vec2<u32>, // (1, 1) unless transposed
    tap_step: vec2<i32>, // from one tap of a phase to its next
    low: f32, // the two numbers of lib/conv/conv_epilogue.wgsl
    high: f32,
    rows: u32, // of tiles, or blocks of channels
    columns: u32, // of tiles, or runs of outputs
    splits: u32,
    split_k: u32, // length of k of a split
    residual: u32, // elements of the residual
}

override TRANSPOSED: bool;
override HAS_BIAS: bool;

// One axis of a phase: output number j reads the inputs start + j * advance + t * reach.
struct Axis {
    outputs: u32,
    first_output: u32,
    output_step: u32,
    taps: u32,
    first_tap: u32,
    tap_step: u32,
    start: i32,
    advance: i32,
    reach: i32,
}

fn phase_axis(dim: u32, phase: u32) -> Axis {
    let kernel = params.kernel[dim];
    let out_size = params.out_size[dim];
    let stride = params.stride[dim];
    let padding = params.padding[dim];
    let dilation = params.dilation[dim];
    if (!TRANSPOSED) {
        return Axis(out_size, 0u, 1u, kernel, 0u, 1u, -padding, stride, dilation);
    }
    let tap_step = params.tap_step[dim];
    let reach = i32(phase) + padding;
    var tap = 0;
    while (tap < tap_step && (reach - tap * dilation) % stride != 0) {
        tap++;
    }
    let some = tap < tap_step && tap < i32(kernel);
    return Axis(
        (out_size - phase + u32(stride) - 1u) / u32(stride),
        phase,
        u32(stride),
        select(0u, (kernel - u32(tap) + u32(tap_step) - 1u) / u32(tap_step), some),
        u32(tap),
        u32(tap_step),
        (reach - tap * dilation) / stride,
        1,
        -(tap_step * dilation / stride),
    );
}

// The tile of one workgroup of a tiled kernel; it has nothing to do in a phase past the last one.
struct Job {
    row: u32, // of tiles
    column: u32, // of tiles
    split: u32,
    group: u32,
    phase: u32,
}

// Rows count fastest: workgroups that run together read the same part of the input.
fn job_of(workgroup: u32) -> Job {
    let row = workgroup % params.rows;
    let column = workgroup / params.rows % params.columns;
    let rest = workgroup / (params.rows * params.columns);
    let group = rest / params.splits;
    return Job(row, column, rest % params.splits, group % params.groups, group / params.groups);
}

// The parts of a split sum follow one another, each in whole quads.
fn part_size(numel: u32) -> u32 {
    return (numel + 3u) / 4u * 4u;
}
