// Layer and group normalization: output = (x - mean) / sqrt(variance + eps) * weight + bias, where
// mean and variance are those of a row. The variance is summed around the mean, in a second pass:
// the difference of two large sums would lose it.
//
// ITEM is one element or a quad of them. Weight and bias are items beside those of the row, or with
// CHANNELS elements: a row is then a group of channels, `channel` items each.

// use lib/items.wgsl
// use lib/reduce/sum.wgsl
// use lib/reduce/row_reduction.wgsl

alias Item = ${ITEM};
alias Stored = stored_${ITEM};

override CHANNELS: bool;
override HAS_WEIGHT: bool;
override HAS_BIAS: bool;

struct Params {
    rows: u32,
    length: u32, // items in a row
    count: f32, // elements in a row
    eps: f32,
    groups: u32, // rows until the channels begin anew
    channel: u32, // items in a channel
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<stored_${AFFINE}>;
@group(0) @binding(2) var<storage, read> bias: array<stored_${AFFINE}>;
@group(0) @binding(3) var<storage, read_write> output: array<Stored>;
@group(0) @binding(4) var<storage, read_write> means: array<stored_f32>;
@group(0) @binding(5) var<storage, read_write> rstds: array<stored_f32>;
@group(0) @binding(6) var<uniform> params: Params;

fn affine(x: Item, row: u32, i: u32) -> Item {
    var at = i;
    if (CHANNELS) {
        at = ((row % params.groups) * params.length + i) / params.channel;
    }
    var y = x;
    if (HAS_WEIGHT) {
        y *= Item(${AFFINE}(weight[at]));
    }
    if (HAS_BIAS) {
        y += Item(${AFFINE}(bias[at]));
    }
    return y;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let base = place.row * params.length;
    let end = select(0u, params.length, place.row < params.rows);
    var sum = Item();
    for (var i = place.lane; i < end; i += LANES) {
        sum += Item(input[base + i]);
    }
    let mean = reduce_lanes(sum_${ITEM}(sum), place) / params.count;
    var squares = Item();
    for (var i = place.lane; i < end; i += LANES) {
        let x = Item(input[base + i]) - mean;
        squares += x * x;
    }
    let rstd = inverseSqrt(reduce_lanes(sum_${ITEM}(squares), place) / params.count + params.eps);
    for (var i = place.lane; i < end; i += LANES) {
        output[base + i] = Stored(affine((Item(input[base + i]) - mean) * rstd, place.row, i));
    }
    if (place.lane == 0u && place.row < params.rows) {
        means[place.row] = stored_f32(mean);
        rstds[place.row] = stored_f32(rstd);
    }
}
