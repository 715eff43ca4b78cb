// Scores of experts: the product of each token with the gate's row of each expert.

// use lib/reduce/sum.wgsl
// use lib/reduce/row_reduction.wgsl

alias StoredQuad = vec4<${FLOAT}>;

struct Params {
    scores: u32, // of all tokens
    experts: u32,
    quads: u32, // of a token
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gate: array<StoredQuad>;
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let token = place.row / params.experts;
    let expert = place.row % params.experts;
    let end = select(0u, params.quads, place.row < params.scores);
    var sum = 0.0;
    for (var i = place.lane; i < end; i += LANES) {
        sum += dot(vec4<f32>(x[token * params.quads + i]), vec4<f32>(gate[expert * params.quads + i]));
    }
    let score = reduce_lanes(sum, place);
    if (place.lane == 0u && place.row < params.scores) {
        scores[place.row] = score;
    }
}
