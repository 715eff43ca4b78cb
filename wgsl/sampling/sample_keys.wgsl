// The first step of the sampler: keys that order as the logits do, with repeated tokens penalized and
// tokens that are not allowed last of all, and the largest key of each part. It also clears the
// tables of later steps.

// use lib/sampling/sample.wgsl

override PENALIZED: bool;
override MASKED: bool;

const SEEN_WORDS = ${SEEN_WORDS}u; // a bit for each token of the workgroup's part
const OWN_WORDS = ${OWN_WORDS}u; // a bit for each token of a thread's part

struct Params {
    first: u32, // logit of the first row
    length: u32,
    parts: u32, // per row
    part: u32, // tokens in one, whole words of bits
    cleared: u32, // words of `tables`, of a row
    history: u32, // tokens of a slot
}

@group(0) @binding(0) var<storage, read> logits: array<${FLOAT}>;
@group(0) @binding(1) var<storage, read> history: array<i32>;
@group(0) @binding(2) var<storage, read> allowed: array<i32>; // a bit for each token
@group(0) @binding(3) var<storage, read> settings: array<${SETTING}>;
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;
@group(0) @binding(5) var<storage, read_write> tops: array<u32>;
@group(0) @binding(6) var<storage, read_write> tables: array<u32>;
@group(0) @binding(7) var<${PLACES}> position: ${PLACE_TYPE}; // and slot, of each row
@group(0) @binding(8) var<uniform> params: Params;

// A thread that has a part to itself has `own`: software adapters take half a minute to compile a shader with as
// much workgroup memory as all threads of a workgroup would need for that.
var<workgroup> seen: array<atomic<u32>, SEEN_WORDS>;
var<private> own: array<u32, OWN_WORDS>;

// Each part looks for its own tokens in all of the history: nothing has to be sorted.
fn note_history(place: Place) {
    let first = place.row * params.part;
    let start = u32(max(position[row].y, 0)) * params.history;
    for (var i = place.lane; i < u32(position[row].x); i += LANES) {
        let token = bitcast<u32>(history[start + i]) - first;
        if (token >= params.part) {
            continue;
        }
        if (LANES == 1u) {
            own[token / 32u] |= 1u << (token % 32u);
        } else {
            atomicOr(&seen[token / 32u], 1u << (token % 32u));
        }
    }
    if (LANES > 1u) {
        workgroupBarrier();
    }
}

fn was_seen(place: Place, token: u32) -> bool {
    let local = token - place.row * params.part;
    var word = 0u;
    if (LANES == 1u) {
        word = own[local / 32u];
    } else {
        word = atomicLoad(&seen[local / 32u]);
    }
    return ((word >> (local % 32u)) & 1u) == 1u;
}

fn is_allowed(token: u32) -> bool {
    let word = row * ((params.length + 31u) / 32u) + token / 32u;
    return ((bitcast<u32>(allowed[word]) >> (token % 32u)) & 1u) == 1u;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    row = workgroup.z;
    let place = place_of(thread, workgroup, workgroups);
    for (var i = workgroup.x * THREADS + thread; i < params.cleared; i += workgroups.x * THREADS) {
        tables[row * params.cleared + i] = 0u;
    }
    if (PENALIZED) {
        note_history(place);
    }
    var top = NOTHING;
    let end = min(params.length, (place.row + 1u) * params.part);
    for (var token = place.row * params.part + place.lane; token < end; token += LANES) {
        var key = key_of(f32(logits[params.first + row * params.length + token]));
        if (PENALIZED && was_seen(place, token)) {
            key = penalized(key);
        }
        if (MASKED && !is_allowed(token)) {
            key = NAN_KEY;
        }
        keys[row * params.length + token] = key;
        top = combine(top, vec2u(key, 0u));
    }
    top = reduce_lanes(top, place);
    if (place.lane == 0u && place.row < params.parts) {
        tops[row * params.parts + place.row] = top.x;
    }
}
