// The token that is drawn from each part, as a pair of key and index for argreduce_merge.wgsl.
//
// An exponential race (the Gumbel-max trick): every kept token draws a time, shorter for likelier
// tokens; the shortest wins, and nothing is summed.

// use lib/sampling/threefry.wgsl
// use lib/sampling/sample.wgsl
// use lib/sampling/selection.wgsl

struct Params {
    length: u32,
    parts: u32,
    part: u32,
    stages: u32,
    first_top_p_stage: u32,
}

@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read> tops: array<u32>;
@group(0) @binding(2) var<storage, read> settings: array<${SETTING}>;
@group(0) @binding(3) var<storage, read> seed: array<i32>;
@group(0) @binding(4) var<storage, read_write> tables: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read_write> output: array<vec2u>;
@group(0) @binding(6) var<${PLACES}> position: ${PLACE_TYPE}; // and slot, of each row
@group(0) @binding(7) var<uniform> params: Params;

// The largest distance that min-p keeps.
fn reach() -> u32 {
    let share = setting(3u);
    if (share >= 1.0) {
        return 0u;
    }
    let word = u32(max(share, 0.0) * 4294967296.0);
    return select(negative_log2(max(word, 1u)), 0xffffffffu, word == 0u);
}

// From the smaller logarithm of a time to the larger key.
fn key_of_score(score: i32) -> u32 { return bitcast<u32>(score) ^ 0x7fffffffu; }
fn score_of_key(key: u32) -> i32 { return bitcast<i32>(key ^ 0x7fffffffu); }

fn drawn(best: vec2u, token: u32, distance: u32) -> vec2u {
    let key = bitcast<vec2u>(vec2i(seed[2u * row], seed[2u * row + 1u]));
    let word = threefry(key, vec2u(bitcast<u32>(position[row].x), token)).x | 1u;
    // log2(t) for t = 1 - word / 2^32 is below log2_of_wait, and mostly enough to tell that it is late.
    let soonest = i32(distance) - (i32(countLeadingZeros(0u - word)) + 1) * 16777216;
    if (best.x > 0u && soonest > score_of_key(best.x)) {
        return best;
    }
    return combine(best, vec2u(key_of_score(i32(distance) + log2_of_wait(word)), token));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    row = workgroup.z;
    let place = place_of(thread, workgroup, workgroups);
    let top = top_key(place);
    var smallest = 0u;
    if (params.stages > 0u) {
        smallest = select_digit(params.stages - 1u, place).prefix;
        if (params.stages > params.first_top_p_stage) {
            smallest = max(smallest, top_k_threshold());
        }
    }
    let greedy = is_greedy(top);
    let factor = log2_per_logit();
    let farthest = min(reach(), MAX_DISTANCE - 1u);
    var best = NOTHING;
    let end = min(params.length, (place.row + 1u) * params.part);
    for (var token = place.row * params.part + place.lane; token < end; token += LANES) {
        let key = keys[row * params.length + token];
        let distance = distance_below(top, key, factor);
        if (greedy) {
            best = combine(best, vec2u(key, token));
        } else if (key >= smallest && distance <= farthest) {
            best = drawn(best, token, distance);
        }
    }
    best = reduce_lanes(best, place);
    if (place.lane == 0u && place.row < params.parts) {
        output[row * params.parts + place.row] = best;
    }
}
