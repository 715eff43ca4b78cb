// The second step of topk_parts.wgsl: the first k pairs of all parts of a row, as values and indices.

// use lib/reduce/argreduce.wgsl
// use lib/sampling/ranking.wgsl
// use lib/reduce/row_reduction.wgsl

alias Stored = ${FLOAT};

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
    pairs: u32, // of a row
    k: u32,
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> pairs: array<vec2u>;
@group(0) @binding(2) var<storage, read_write> values: array<Stored>;
@group(0) @binding(3) var<storage, read_write> indices: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let inside = place.row < params.rows;
    let end = select(0u, params.pairs, inside);
    let outer = place.row / params.inner;
    let column = place.row % params.inner;
    var last = EVERYTHING;
    for (var rank = 0u; rank < params.k; rank++) {
        var best = NOTHING;
        for (var i = place.lane; i < end; i += LANES) {
            let pair = pairs[place.row * params.pairs + i];
            if (is_after(last, pair)) {
                best = combine(best, pair);
            }
        }
        last = reduce_lanes(best, place);
        if (inside && place.lane == 0u) {
            let to = (outer * params.k + rank) * params.inner + column;
            values[to] = input[(outer * params.length + last.y) * params.inner + column];
            indices[to] = i32(last.y);
        }
    }
}
