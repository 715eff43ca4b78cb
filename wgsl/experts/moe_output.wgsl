// The sum of the chosen experts' second halves, w2 middle, each multiplied by its routing weight.
// A row of the dispatch is an element of a token's output.

// use lib/math.wgsl
// use lib/experts/packed_row.wgsl
// use lib/reduce/sum.wgsl
// use lib/reduce/row_reduction.wgsl

override SIGMOID: bool; // weights are sigmoids divided by their sum; otherwise softmax

struct Params {
    matrix: PackedMatrix,
    rows: u32,
    size: u32, // elements of a token
    activated: u32, // experts of a token
    first: u32, // token of this dispatch
    scale: f32, // of weights
}

@group(0) @binding(0) var<storage, read> chosen: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> middle: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> packed: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<${FLOAT}>;
@group(0) @binding(4) var<uniform> params: Params;

// Sigmoids below exp(-LIFT) are exponentials. If all are, they are multiplied by exp(LIFT): a GPU may take
// subnormal numbers for 0. Their sum counts as the smallest normal number, which is LEAST then, if it is less.
const LIFT = 64.0;
const LEAST = 7.3293825e-11;

struct Weights {
    largest: f32, // score
    total: f32, // to divide by
}

fn share_of(score: f32, largest: f32) -> f32 {
    if (!SIGMOID) {
        return exp(max(score - largest, -200.0));
    }
    return select(sigmoid(vec4<f32>(score)).x, exp(max(score + LIFT, -200.0)), largest < -LIFT);
}

fn weights_of(first: u32) -> Weights {
    var largest = bitcast<f32>(chosen[first].y);
    for (var i = 1u; i < params.activated; i++) {
        largest = larger_f32(largest, bitcast<f32>(chosen[first + i].y));
    }
    var total = 0.0;
    for (var i = 0u; i < params.activated; i++) {
        total += share_of(bitcast<f32>(chosen[first + i].y), largest);
    }
    if (SIGMOID && largest < -LIFT) {
        total = max(total, LEAST);
    }
    // Differences of infinite scores are NaN.
    let undefined = is_nan_f32(largest) || (!SIGMOID && is_infinite(vec4<f32>(largest)).x);
    return Weights(largest, select(total, params.matrix.nan, undefined));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let row = place.row % params.size;
    let token = place.row / params.size; // in this dispatch
    let first = (params.first + token) * params.activated;
    let weights = weights_of(first);
    let end = select(0u, params.matrix.items, place.row < params.rows);
    var sum = 0.0;
    var universal = true;
    for (var i = 0u; i < params.activated; i++) {
        let expert = chosen[first + i];
        let start = row_start(expert.x, row);
        universal = universal && is_universal(expert.x);
        var product = 0.0;
        for (var item = place.lane; item < end; item += LANES) {
            let at = ((token * params.activated + i) * params.matrix.items + item) * 4u;
            product += item_dot(start, row, item, mat4x4<f32>(middle[at], middle[at + 1u], middle[at + 2u], middle[at + 3u]));
        }
        let weight = share_of(bitcast<f32>(expert.y), weights.largest) / weights.total;
        sum += product * (weight * params.scale);
    }
    let found = reduce_lanes(sum, place);
    if (place.lane == 0u && place.row < params.rows) {
        output[params.first * params.size + place.row] = ${FLOAT}(select(params.matrix.nan, found, universal));
    }
}
