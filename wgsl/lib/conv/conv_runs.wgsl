// Where an invocation of a convolution without tiles works: a run of four neighbouring outputs in each of
// BLOCK channels. Goes with lib/conv/conv.wgsl; `params.rows` are blocks of channels, `params.columns` runs.

const BLOCK = ${BLOCK}u; // channels: 1 or 4

struct Run {
    exists: bool,
    run: u32, // within its line
    line: u32,
    first_channel: u32,
    group: u32,
    image: u32,
    h: Axis,
    w: Axis,
}

fn run_of(invocation: u32) -> Run {
    var index = invocation;
    let run = index % params.columns;
    index /= params.columns;
    let lines = (params.out_size.x + params.phases.x - 1u) / params.phases.x; // of the longest phase
    let line = index % lines;
    index /= lines;
    let first_channel = index % params.rows * BLOCK;
    index /= params.rows;
    let group = index % params.groups;
    index /= params.groups;
    let image = index % params.batch;
    let phase = index / params.batch;
    let h = phase_axis(0u, phase / params.phases.y);
    let w = phase_axis(1u, phase % params.phases.y);
    let exists = phase < params.phases.x * params.phases.y && line < h.outputs && run * 4u < w.outputs;
    return Run(exists, run, line, first_channel, group, image, h, w);
}
