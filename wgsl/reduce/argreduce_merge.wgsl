// The second step of argreduce.wgsl: the best pair of each row's parts, and of it the index.

// use lib/reduce/argreduce.wgsl
// use lib/reduce/row_reduction.wgsl

struct Params {
    rows: u32,
    parts: u32,
}

@group(0) @binding(0) var<storage, read> pairs: array<vec2u>;
@group(0) @binding(1) var<storage, read_write> output: array<i32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    var best = NOTHING;
    if (place.row < params.rows) {
        for (var i = place.lane; i < params.parts; i += LANES) {
            best = combine(best, pairs[place.row * params.parts + i]);
        }
    }
    best = reduce_lanes(best, place);
    if (place.row < params.rows && place.lane == 0u) {
        output[place.row] = i32(best.y);
    }
}
