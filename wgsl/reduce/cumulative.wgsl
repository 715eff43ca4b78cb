// Cumulative results of rows (of `length` elements, `inner` apart): a row is split into a part per
// thread, each of which takes its own, then what is before it, and writes.

// use lib/reduce/running_${KIND}.wgsl

const THREADS = 256u;
override LANES: u32; // threads of a row, a power of two
override ROWS: u32; // of a workgroup: THREADS / LANES

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
    part: u32, // elements of one
}

var<workgroup> totals: array<Total, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let row = (workgroup.x + workgroup.y * workgroups.x) * ROWS + thread / LANES;
    let lane = thread % LANES;
    let base = (row / params.inner) * params.length * params.inner + row % params.inner;
    let length = select(0u, params.length, row < params.rows);
    let begin = min(lane * params.part, length);
    let end = min(begin + params.part, length);
    var total = NOTHING;
    if (LANES > 1u) {
        for (var i = begin; i < end; i++) {
            total = joined(total, total_at(base + i * params.inner, i));
        }
        totals[thread] = total;
        workgroupBarrier();
        total = NOTHING;
        for (var i = thread - lane; i < thread; i++) {
            total = joined(total, totals[i]);
        }
    }
    for (var i = begin; i < end; i++) {
        let at = base + i * params.inner;
        total = joined(total, total_at(at, i));
        put(at, base, total);
    }
}
