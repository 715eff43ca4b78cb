// One digit of the smallest key that top-k or top-p keeps: how often, or with which probability,
// tokens have each value of it. See lib/sampling/selection.wgsl.

// use lib/sampling/sample.wgsl
// use lib/sampling/selection.wgsl

struct Params {
    length: u32,
    parts: u32,
    part: u32,
    stages: u32, // of a row
    stage: u32,
    first_top_p_stage: u32,
}

@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read> tops: array<u32>;
@group(0) @binding(2) var<storage, read> settings: array<${SETTING}>;
@group(0) @binding(3) var<storage, read_write> tables: array<atomic<u32>>;
@group(0) @binding(4) var<uniform> params: Params;

var<workgroup> lows: array<atomic<u32>, BINS>;
var<workgroup> highs: array<atomic<u32>, BINS>;

// Sums of integers are the same in any order; the thread that causes a carry counts it.
fn add_here(bin: u32, amount: u32) {
    if (atomicAdd(&lows[bin], amount) > 0xffffffffu - amount) {
        atomicAdd(&highs[bin], 1u);
    }
}

fn add_to_table(bin: u32, amount: vec2u) {
    let at = table_start(params.stage) + bin;
    let carry = select(0u, 1u, atomicAdd(&tables[at], amount.x) > 0xffffffffu - amount.x);
    if (amount.y + carry > 0u) {
        atomicAdd(&tables[at + BINS], amount.y + carry);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    row = workgroup.z;
    let place = place_of(thread, workgroup, workgroups);
    let digit = params.stage % DIGITS;
    let by_mass = params.stage >= params.first_top_p_stage;
    var above = Selection();
    var floor_key = 0u;
    if (params.stage > 0u) {
        above = select_digit(params.stage - 1u, place);
        if (place.row == 0u && place.lane == 0u) {
            store_selection(params.stage - 1u, above);
        }
        if (digit == 0u) { // what was settled are all digits of top-k's key
            floor_key = above.prefix;
            above.prefix = 0u;
        } else if (by_mass) {
            floor_key = top_k_threshold();
        }
    }
    var top = 0u;
    if (by_mass) {
        top = top_key(place);
    }
    let factor = log2_per_logit();
    let mask = select(0xffffffffu << (32u - 8u * digit), 0u, digit == 0u);
    let end = min(params.length, (place.row + 1u) * params.part);
    for (var token = place.row * params.part + place.lane; token < end; token += LANES) {
        let key = keys[row * params.length + token];
        if (key >= floor_key && (key & mask) == above.prefix) {
            let bin = (key >> (24u - 8u * digit)) & 0xffu;
            var amount = 1u;
            if (by_mass) {
                amount = negative_power(distance_below(top, key, factor));
            }
            if (LANES == 1u) {
                add_to_table(bin, vec2u(amount, 0u));
            } else {
                add_here(bin, amount);
            }
        }
    }
    if (LANES > 1u) {
        workgroupBarrier();
        let amount = vec2u(atomicLoad(&lows[thread]), atomicLoad(&highs[thread]));
        if (any(amount != vec2u())) {
            add_to_table(thread, amount);
        }
    }
}
