// A linear layer with quantized weights for one row, which attention has left in shares: each workgroup
// weighs them as attention_merge.wgsl does. See lib/one_row.wgsl.

// use lib/quads.wgsl
// use lib/product.wgsl
// use lib/weights.wgsl
// use lib/wide_units.wgsl
// use lib/one_row.wgsl

struct Params {
    product: Product,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
    eps: f32,
}

const SPLITS = ${SPLITS}u;
const HEAD_QUADS = ${HEAD_QUADS}u;
const SHARES = UNITS * X_QUADS / HEAD_QUADS * SPLITS; // of all heads
const AT_ONCE = 8u; // reads on their way
const FLOOR = -1e30;

@group(0) @binding(0) var<storage, read> values: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> gain: array<StoredQuad>; // not looked at
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(5) var<storage, read> addend: array<Stored>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<uniform> params: Params;

var<workgroup> shares: array<vec2<f32>, SHARES>; // maximum and sum of each

fn await_x(thread: u32) {
    for (var i = thread; i < SHARES; i += THREADS) {
        shares[i] = stats[i];
    }
    workgroupBarrier();
}

// A share that saw no key has the sum 0, and its values were never written.
fn weight_of(share: vec2<f32>, highest: f32) -> f32 {
    return select(exp(share.x - highest), 0.0, share.y == 0.0);
}

fn x_at(quad: u32) -> vec4<f32> {
    let first = quad / HEAD_QUADS * SPLITS;
    var highest = FLOOR;
    for (var i = 0u; i < SPLITS; i++) {
        highest = max(highest, shares[first + i].x);
    }
    var sum = 0.0;
    var total = vec4<f32>();
    for (var begin = 0u; begin < SPLITS; begin += AT_ONCE) {
        var seen = 0.0;
        for (var i = 0u; i < AT_ONCE; i++) {
            seen += shares[first + min(begin + i, SPLITS - 1u)].y;
        }
        if (seen == 0.0) { // most, while there are few keys
            continue;
        }
        var found = array<vec4<f32>, AT_ONCE>();
        for (var i = 0u; i < AT_ONCE; i++) {
            found[i] = values[(first + min(begin + i, SPLITS - 1u)) * HEAD_QUADS + quad % HEAD_QUADS];
        }
        for (var i = 0u; i < AT_ONCE; i++) {
            if (begin + i < SPLITS) {
                let share = shares[first + begin + i];
                let weight = weight_of(share, highest);
                sum += weight * share.y;
                total += select(weight * found[i], vec4<f32>(), weight == 0.0);
            }
        }
    }
    return select(total / sum, vec4<f32>(), sum == 0.0);
}

fn fetch_units(matrix: u32, at: u32, scale: u32) -> Units {
    return Units(
        weights[at], weights[at + UNITS], weights[at + 2u * UNITS], weights[at + 3u * UNITS],
        vec4<f32>(scales[scale]),
    );
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let first = (group.x + group.y * groups.x) * COLUMNS;
    if (first >= params.product.n) {
        return;
    }
    multiply_row(thread, 0u, params.scale_stride, min(first + lane_of(thread) * 4u, params.product.n - 4u));
    let own = first + thread;
    if (thread < COLUMNS && own < params.product.n) {
        let added = Number(addend[own * params.product.addend_column]);
        output[own] = Out(params.product.alpha * sum_of(0u, thread) + params.product.beta * added);
    }
}
