// The k largest or smallest elements of each part of a long row, the first one first, as pairs of key and
// index. Rows have `length` elements, `inner` apart. A part with fewer elements gives pairs of nothing.

// use lib/reduce/ordered_key.wgsl
// use lib/reduce/argreduce.wgsl
// use lib/sampling/ranking.wgsl
// use lib/reduce/row_reduction.wgsl

override LARGEST: bool;

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
    parts: u32, // per row
    part: u32, // elements in one
    k: u32,
}

@group(0) @binding(0) var<storage, read> input: array<${FLOAT}>;
@group(0) @binding(1) var<storage, read_write> pairs: array<vec2u>;
@group(0) @binding(2) var<uniform> params: Params;

// What comes first has the largest key.
fn key_of(x: f32) -> u32 {
    let key = ordered_key(x);
    return select(~key, key, LARGEST);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let inside = place.row < params.rows * params.parts;
    let row = place.row / params.parts;
    let first = (place.row % params.parts) * params.part;
    let base = (row / params.inner) * params.length * params.inner + row % params.inner;
    let end = select(0u, min(params.length, first + params.part), inside);
    var last = EVERYTHING;
    for (var rank = 0u; rank < params.k; rank++) {
        var best = NOTHING;
        for (var i = first + place.lane; i < end; i += LANES) {
            let pair = vec2u(key_of(f32(input[base + i * params.inner])), i);
            if (is_after(last, pair)) {
                best = combine(best, pair);
            }
        }
        last = reduce_lanes(best, place);
        if (inside && place.lane == 0u) {
            pairs[place.row * params.k + rank] = last;
        }
    }
}
