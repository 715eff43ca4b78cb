// The third step of top_logprobs.wgsl: the sum of all probabilities, each divided by the largest. Sums of
// integers are the same in any order.

// use lib/sampling/logit_keys.wgsl
// use lib/fixed_point.wgsl
// use lib/reduce/row_reduction.wgsl

struct Params {
    first: u32, // logit of the row
    length: u32,
    parts: u32, // per row
    part: u32, // tokens in one
}

@group(0) @binding(0) var<storage, read> logits: array<${FLOAT}>;
@group(0) @binding(1) var<storage, read_write> output: array<atomic<u32>>;
@group(0) @binding(2) var<uniform> params: Params;

alias Reduced = vec2u;

fn combine(a: vec2u, b: vec2u) -> vec2u { return add_u64(a, b); }

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let top = atomicLoad(&output[3]);
    let end = min(params.length, (place.row + 1u) * params.part);
    var sum = vec2u();
    for (var token = place.row * params.part + place.lane; token < end; token += LANES) {
        let key = key_of(f32(logits[params.first + token]));
        sum = add_u64(sum, vec2u(negative_power(distance_below(top, key, LOG2_E)), 0u));
    }
    sum = reduce_lanes(sum, place);
    if (place.lane == 0u && place.row < params.parts) {
        // The thread that causes a carry counts it.
        let carry = select(0u, 1u, atomicAdd(&output[1], sum.x) > 0xffffffffu - sum.x);
        atomicAdd(&output[2], sum.y + carry);
    }
}
