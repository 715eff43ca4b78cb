// The lower median of rows of `length` elements, `inner` apart, and its index: the element that a
// stable sort would put in the middle. It is found bit by bit, first its key and then its place, by
// counting the elements that a sort would put before it. In a row with NaNs it is the first NaN.

// use lib/elements.wgsl
// use lib/reduce/row_reduction.wgsl

override WITH_INDICES: bool;

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
    place_bits: u32, // of the last place in a row
}

@group(0) @binding(0) var<storage, read> input: array<word_${IN}>;
@group(0) @binding(1) var<storage, read_write> output: array<word_${IN}>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

alias Reduced = u32;

fn combine(a: u32, b: u32) -> u32 { return a + b; }

const NAN_KEY = 0xffffffffu;

// Orders as numbers do, with -0.0 as 0.0, and NaN above all.
fn key_of(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return NAN_KEY;
    }
    return select(magnitude | 0x80000000u, ~bits, bits > 0x80000000u);
}

fn key_at(at: u32) -> u32 { return key_of(f32(pick_${IN}(input[at / per_word_${IN}], at))); }

// How many elements of a row a sort would put before a key at a place.
fn count_before(key: u32, at: u32, base: u32, end: u32, place: Place) -> u32 {
    var count = 0u;
    for (var i = place.lane; i < end; i += LANES) {
        let other = key_at(base + i * params.inner);
        count += u32(other < key || (other == key && i < at));
    }
    return reduce_lanes(count, place);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let inside = place.row < params.rows;
    let base = (place.row / params.inner) * params.length * params.inner + place.row % params.inner;
    let end = select(0u, params.length, inside);
    let numbers = count_before(NAN_KEY, 0u, base, end, place);
    let rank = select((params.length - 1u) / 2u, numbers, numbers < params.length);
    var key = 0u;
    for (var bit = 0u; bit < 32u; bit++) {
        let larger = key | (0x80000000u >> bit);
        key = select(key, larger, count_before(larger, 0u, base, end, place) <= rank);
    }
    var at = 0u;
    for (var bit = params.place_bits; bit > 0u; bit--) {
        let later = at | (1u << (bit - 1u));
        let before = count_before(key, later, base, end, place);
        at = select(at, later, later < params.length && before <= rank);
    }
    if (inside && place.lane == 0u) {
        output[place.row] = input[base + at * params.inner];
        if (WITH_INDICES) {
            indices[place.row] = i32(at);
        }
    }
}
