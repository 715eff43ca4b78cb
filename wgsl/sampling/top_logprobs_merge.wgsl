// The second step of top_logprobs.wgsl: the best pairs of all parts, and the key of the chosen token.
// It also sets the sum to zero that top_logprobs_sum.wgsl adds to.

// use lib/sampling/logit_keys.wgsl
// use lib/reduce/argreduce.wgsl
// use lib/sampling/ranking.wgsl
// use lib/reduce/row_reduction.wgsl

struct Params {
    first: u32, // logit of the row
    length: u32,
    chosen: u32, // where the token is
    pairs: u32,
    count: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<${FLOAT}>;
@group(0) @binding(1) var<storage, read> tokens: array<i32>;
@group(0) @binding(2) var<storage, read> pairs: array<vec2u>;
@group(0) @binding(3) var<storage, read_write> output: array<u32>;
@group(0) @binding(4) var<uniform> params: Params;

fn key_of_chosen() -> u32 {
    let token = bitcast<u32>(tokens[params.chosen]);
    if (token >= params.length) {
        return NAN_KEY;
    }
    return key_of(f32(logits[params.first + token]));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let end = select(0u, params.pairs, place.row == 0u);
    var last = EVERYTHING;
    for (var rank = 0u; rank < params.count; rank++) {
        var best = NOTHING;
        for (var i = place.lane; i < end; i += LANES) {
            if (is_after(last, pairs[i])) {
                best = combine(best, pairs[i]);
            }
        }
        last = reduce_lanes(best, place);
        if (thread == 0u) {
            output[3u + rank] = last.x;
            output[3u + params.count + rank] = last.y;
        }
    }
    if (thread == 0u) {
        output[0] = key_of_chosen();
        output[1] = 0u;
        output[2] = 0u;
    }
}
