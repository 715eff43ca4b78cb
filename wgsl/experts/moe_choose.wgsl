// The experts of each token, those with the largest scores first, and their scores. An invocation counts
// the experts that come before its own: of equals the first comes first, and NaN is behind all.

// use lib/grid.wgsl
// use lib/math.wgsl
// use lib/reduce/ordered_key.wgsl

override BIASED: bool; // ranked by sigmoid(score) + bias, which the score that is kept does not have

struct Params {
    scores: u32, // of all tokens
    experts: u32,
    activated: u32, // experts of a token
}

@group(0) @binding(0) var<storage, read> scores: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<${FLOAT}>;
@group(0) @binding(2) var<storage, read_write> chosen: array<vec2<u32>>; // expert, and bits of its score
@group(0) @binding(3) var<uniform> params: Params;

fn key_of(at: u32, expert: u32) -> u32 {
    var score = scores[at];
    if (BIASED) {
        score = sigmoid(vec4<f32>(score)).x + f32(bias[expert]);
    }
    return select(ordered_key(score), 0u, is_nan_f32(score));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let at = flat_index(invocation, workgroups);
    if (at >= params.scores) {
        return;
    }
    let token = at / params.experts;
    let own = at % params.experts;
    let key = key_of(at, own);
    var rank = 0u;
    for (var expert = 0u; expert < params.experts; expert++) {
        let other = key_of(token * params.experts + expert, expert);
        rank += u32(other > key || (other == key && expert < own));
    }
    if (rank < params.activated) {
        chosen[token * params.activated + rank] = vec2<u32>(own, bitcast<u32>(scores[at]));
    }
}
