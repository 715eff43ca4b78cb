// Cumulative sums of rows (of `length` elements, `inner` apart): a row is split into a part per
// thread, each of which sums its own, adds the sum before it, and writes. ACC is f32 or i32.

// use lib/elements.wgsl

const THREADS = 256u;
override LANES: u32; // threads of a row, a power of two
override ROWS: u32; // of a workgroup: THREADS / LANES

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
    part: u32, // elements of one
}

@group(0) @binding(0) var<storage, read> input: array<word_${IN}>;
@group(0) @binding(1) var<storage, read_write> output: array<${OUT}>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> sums: array<${ACC}, THREADS>;

fn element(i: u32) -> ${ACC} { return ${ACC}(pick_${IN}(input[i / per_word_${IN}], i)); }

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
    var total = ${ACC}();
    if (LANES > 1u) {
        for (var i = begin; i < end; i++) {
            total += element(base + i * params.inner);
        }
        sums[thread] = total;
        workgroupBarrier();
        total = ${ACC}();
        for (var i = thread - lane; i < thread; i++) {
            total += sums[i];
        }
    }
    for (var i = begin; i < end; i++) {
        let at = base + i * params.inner;
        total += element(at);
        output[at] = ${OUT}(total);
    }
}
