// The largest logits of each part of a row, from the largest down, as pairs of key and token.

// use lib/sampling/logit_keys.wgsl
// use lib/reduce/argreduce.wgsl
// use lib/sampling/ranking.wgsl
// use lib/reduce/row_reduction.wgsl

struct Params {
    first: u32, // logit of the row
    length: u32,
    parts: u32, // per row
    part: u32, // tokens in one
    count: u32, // pairs of each part
}

@group(0) @binding(0) var<storage, read> logits: array<${FLOAT}>;
@group(0) @binding(1) var<storage, read_write> pairs: array<vec2u>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let end = min(params.length, (place.row + 1u) * params.part);
    var last = EVERYTHING;
    for (var rank = 0u; rank < params.count; rank++) {
        var best = NOTHING;
        for (var token = place.row * params.part + place.lane; token < end; token += LANES) {
            let pair = vec2u(key_of(f32(logits[params.first + token])), token);
            if (is_after(last, pair)) {
                best = combine(best, pair);
            }
        }
        last = reduce_lanes(best, place);
        if (place.lane == 0u && place.row < params.parts) {
            pairs[place.row * params.count + rank] = last;
        }
    }
}
