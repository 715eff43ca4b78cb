// The row of a GEMV as what attention with split keys left: shares of each head, which every workgroup adds up by the weights of
// their splits (lib/attention/merge_splits.wgsl does so in a dispatch of its own). Goes with lib/gemm/gemv_q4.wgsl; the kernel declares
// `shares` (an array of quads) and `stats`.

// use lib/gemm/gemv_floats.wgsl

const SPLITS = ${SPLITS}u;
const HEAD_QUADS = ${HEAD_QUADS}u;
const ALL_SPLITS = UNITS * X_QUADS / HEAD_QUADS * SPLITS; // of all heads

var<workgroup> split_weights: array<f32, ALL_SPLITS>;

fn weight_of(split: vec2<f32>, highest: f32) -> f32 {
    return select(exp(split.x - highest), 0.0, split.y == 0.0);
}

// The weights of all splits, by all invocations of a workgroup. A split without keys has the sum 0.
fn find_split_weights(thread: u32) {
    for (var own = thread; own < ALL_SPLITS; own += THREADS) {
        let first = own / SPLITS * SPLITS;
        var found = array<vec2<f32>, SPLITS>();
        var highest = -1e30;
        for (var i = 0u; i < SPLITS; i++) {
            found[i] = stats[first + i];
            highest = max(highest, found[i].x);
        }
        var sum = 0.0;
        for (var i = 0u; i < SPLITS; i++) {
            sum += weight_of(found[i], highest) * found[i].y;
        }
        let weight = weight_of(stats[own], highest);
        split_weights[own] = select(weight / sum, 0.0, weight == 0.0);
    }
    workgroupBarrier();
}

fn row_quad(quad: u32) -> vec4<f32> {
    let first = quad / HEAD_QUADS * SPLITS;
    var sum = vec4<f32>();
    for (var i = 0u; i < SPLITS; i++) {
        let share = shares[(first + i) * HEAD_QUADS + quad % HEAD_QUADS];
        let weight = split_weights[first + i];
        // Values of a split without keys were never written.
        sum += select(weight * share, vec4<f32>(), weight == 0.0);
    }
    return sum;
}

fn first_x(thread: u32) -> Run {
    find_split_weights(thread);
    return fetch_x(0u, thread);
}
