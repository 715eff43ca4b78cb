// The row of a GEMV as what attention with split keys left: shares of each head, which every workgroup adds up by the weights of
// their splits (lib/attention/merge_splits.wgsl does so in a dispatch of its own). Goes with lib/gemm/gemv_q4.wgsl; the kernel declares
// `shares` (an array of quads) and `stats`.

// use lib/gemm/gemv_floats.wgsl

const SPLITS = ${SPLITS}u;
const HEAD_QUADS = ${HEAD_QUADS}u;
const ALL_SPLITS = UNITS * X_QUADS / HEAD_QUADS * SPLITS; // of all heads

const AT_ONCE = 4u; // splits that are read at once

var<workgroup> split_weights: array<f32, ALL_SPLITS>;
var<workgroup> live_splits: atomic<u32>; // those with keys come first

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
        if (weight != 0.0) {
            atomicMax(&live_splits, own - first + 1u);
        }
        split_weights[own] = select(weight / sum, 0.0, weight == 0.0);
    }
    workgroupBarrier();
}

fn row_quad(quad: u32) -> vec4<f32> {
    let first = quad / HEAD_QUADS * SPLITS;
    let live = atomicLoad(&live_splits);
    var sum = vec4<f32>();
    for (var i = 0u; i < live; i += AT_ONCE) {
        let s0 = first + i;
        let s1 = first + min(i + 1u, SPLITS - 1u);
        let s2 = first + min(i + 2u, SPLITS - 1u);
        let s3 = first + min(i + 3u, SPLITS - 1u);
        let v0 = shares[s0 * HEAD_QUADS + quad % HEAD_QUADS];
        let v1 = shares[s1 * HEAD_QUADS + quad % HEAD_QUADS];
        let v2 = shares[s2 * HEAD_QUADS + quad % HEAD_QUADS];
        let v3 = shares[s3 * HEAD_QUADS + quad % HEAD_QUADS];
        sum += weighted(v0, s0, true) + weighted(v1, s1, i + 1u < SPLITS);
        sum += weighted(v2, s2, i + 2u < SPLITS) + weighted(v3, s3, i + 3u < SPLITS);
    }
    return sum;
}

// A share with its weight. Values of a split without keys were never written.
fn weighted(share: vec4<f32>, split: u32, exists: bool) -> vec4<f32> {
    let weight = split_weights[split];
    return select(vec4<f32>(), weight * share, exists && weight != 0.0);
}

fn first_x(thread: u32) -> Run {
    find_split_weights(thread);
    return fetch_x(0u, thread);
}
