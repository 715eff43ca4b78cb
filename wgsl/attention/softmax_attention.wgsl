// softmax(scale * queries . keys + mask) . values for tensors of any strides, as exporters write
// attention without a cache. A workgroup has ROWS queries of one head, and walks the keys in blocks with
// a running maximum. Half of the invocations, a side, have four of the rows: first a key each, then four
// elements of the values and a slice of the block's keys.
//
// Elements of a head are contiguous, and heads are whole quads.

// use lib/nan.wgsl

const HEAD_QUADS = ${HEAD_QUADS}u; // of a query and a key
const VALUE_QUADS = ${VALUE_QUADS}u; // of a value, KEYS at most
const ROWS = 8u;
const KEYS = 128u;
const THREADS = 256u;
const SLICES = KEYS / VALUE_QUADS;

override HAS_MASK: bool;

alias Stored = ${FLOAT};

struct Params {
    heads: u32, // the tensors' first axis is pairs of a batch and a head
    tokens: u32,
    keys: u32,
    tiles: u32, // workgroups per head
    workgroups: u32,
    scaled: u32, // bits: multiplied by the first, by the second; divided by the first, by the second
    nan: f32,
    hidden: f32, // the share of each value in a row with nothing but -inf: 0 or NaN
    // Strides in elements: of a batch, a head, a token; then the mask's of a key, else where it begins.
    q: vec4<u32>,
    k: vec4<u32>,
    v: vec4<u32>,
    mask: vec4<u32>,
    output: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> q: array<vec4<Stored>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<Stored>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<Stored>>;
@group(0) @binding(3) var<storage, read> mask: array<Stored>;
@group(0) @binding(4) var<storage, read> first_scale: array<Stored>;
@group(0) @binding(5) var<storage, read> second_scale: array<Stored>;
@group(0) @binding(6) var<storage, read_write> output: array<vec4<Stored>>;
@group(0) @binding(7) var<uniform> params: Params;

const LOWEST = -0x1.fffffep+127f;

var<workgroup> queries: array<vec4<f32>, ROWS * HEAD_QUADS>;
// Of each side's four rows: the weights of the block's keys, later the sums of the slices.
var<workgroup> weights: array<vec4<f32>, THREADS>;
var<workgroup> maxima: array<vec4<f32>, 16>;

fn infinity_of(x: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>((bitcast<vec4<u32>>(x) & vec4<u32>()) | vec4<u32>(0x7f800000u));
}

fn scale() -> f32 {
    var value = 1.0;
    if ((params.scaled & 1u) != 0u) { value *= f32(first_scale[0]); }
    if ((params.scaled & 2u) != 0u) { value *= f32(second_scale[0]); }
    if ((params.scaled & 4u) != 0u) { value /= f32(first_scale[0]); }
    if ((params.scaled & 8u) != 0u) { value /= f32(second_scale[0]); }
    return value;
}

fn fma_dot(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

fn accumulate_dots(sums: vec4<f32>, at: u32, x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(
        fma_dot(sums.x, queries[at], x),
        fma_dot(sums.y, queries[at + HEAD_QUADS], x),
        fma_dot(sums.z, queries[at + 2u * HEAD_QUADS], x),
        fma_dot(sums.w, queries[at + 3u * HEAD_QUADS], x),
    );
}

// The logits of one key with the four rows of a side. Four quads are in flight before the first is used.
fn logits(side: u32, key_at: u32) -> vec4<f32> {
    var sums = vec4<f32>();
    let rows_at = side * 4u * HEAD_QUADS;
    var i = 0u;
    for (; i + 4u <= HEAD_QUADS; i += 4u) {
        let x0 = vec4<f32>(k[key_at / 4u + i]);
        let x1 = vec4<f32>(k[key_at / 4u + i + 1u]);
        let x2 = vec4<f32>(k[key_at / 4u + i + 2u]);
        let x3 = vec4<f32>(k[key_at / 4u + i + 3u]);
        sums = accumulate_dots(sums, rows_at + i, x0);
        sums = accumulate_dots(sums, rows_at + i + 1u, x1);
        sums = accumulate_dots(sums, rows_at + i + 2u, x2);
        sums = accumulate_dots(sums, rows_at + i + 3u, x3);
    }
    for (; i < HEAD_QUADS; i++) {
        sums = accumulate_dots(sums, rows_at + i, vec4<f32>(k[key_at / 4u + i]));
    }
    return sums;
}

// A quad of a value, and the weights of its key for the four rows of a side.
struct Weighed {
    value: vec4<f32>,
    weight: vec4<f32>,
}

fn weighed(side: u32, key: u32, begin: u32, value_at: u32) -> Weighed {
    let exists = key < KEYS && begin + key < params.keys;
    let at = (value_at + min(begin + key, params.keys - 1u) * params.v.z) / 4u;
    let value = select(vec4<f32>(), vec4<f32>(v[at]), exists);
    return Weighed(value, select(vec4<f32>(), weights[side * KEYS + min(key, KEYS - 1u)], exists));
}

// The maximum of each of a side's rows over its invocations.
fn side_maximum(thread: u32, side: u32, value: vec4<f32>) -> vec4<f32> {
    weights[thread] = value;
    workgroupBarrier();
    if (thread % KEYS < 8u) {
        var found = value;
        for (var i = 8u; i < KEYS; i += 8u) {
            found = max(found, weights[thread + i]);
        }
        maxima[side * 8u + thread % KEYS] = found;
    }
    workgroupBarrier();
    var found = maxima[side * 8u];
    for (var i = 1u; i < 8u; i++) {
        found = max(found, maxima[side * 8u + i]);
    }
    return found;
}

// Adds up the sums of the slices into the first one.
fn over_slices(thread: u32, value: vec4<f32>) -> vec4<f32> {
    workgroupBarrier();
    weights[thread] = value;
    workgroupBarrier();
    var sum = value;
    if (thread % KEYS < VALUE_QUADS) {
        for (var i = 1u; i < SLICES; i++) {
            sum += weights[thread + i * VALUE_QUADS];
        }
    }
    return sum;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let index = group.x + group.y * groups.x;
    if (index >= params.workgroups) {
        return;
    }
    let first = index % params.tiles * ROWS;
    let place = vec2<u32>(index / params.tiles / params.heads, index / params.tiles % params.heads);
    let last = params.tokens - 1u;
    let factor = scale();
    let q_at = dot(place, params.q.xy) + params.q.w;
    for (var i = thread; i < ROWS * HEAD_QUADS; i += THREADS) {
        let token = min(first + i / HEAD_QUADS, last);
        queries[i] = factor * vec4<f32>(q[(q_at + token * params.q.z) / 4u + i % HEAD_QUADS]);
    }
    workgroupBarrier();

    let side = thread / KEYS;
    let member = thread % KEYS;
    let quad = member % VALUE_QUADS;
    let slice = member / VALUE_QUADS; // SLICES and more: none
    let rows = min(vec4<u32>(first + side * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
    let k_at = dot(place, params.k.xy) + params.k.w;
    let v_at = dot(place, params.v.xy) + params.v.w;
    let mask_at = dot(place, params.mask.xy) + rows * params.mask.z;
    var maximum = vec4<f32>(LOWEST);
    var sums = vec4<f32>();
    var row0 = vec4<f32>();
    var row1 = vec4<f32>();
    var row2 = vec4<f32>();
    var row3 = vec4<f32>();
    for (var begin = 0u; begin < params.keys; begin += KEYS) {
        let key = min(begin + member, params.keys - 1u);
        var logit = logits(side, k_at + key * params.k.z);
        if (HAS_MASK) {
            let at = mask_at + key * params.mask.w;
            logit += vec4<f32>(vec4<Stored>(mask[at.x], mask[at.y], mask[at.z], mask[at.w]));
        }
        // A NaN becomes an infinity, which stays the maximum, and the row has no softmax.
        logit = select(logit, infinity_of(logit), is_nan_vec4f(logit));
        let now = max(maximum, side_maximum(thread, side, logit));
        // Past the last key it was read again, which changes no maximum; its weight is 0.
        workgroupBarrier();
        weights[thread] = select(vec4<f32>(), exp(logit - now), begin + member < params.keys);
        workgroupBarrier();
        let kept = exp(maximum - now);
        maximum = now;
        sums *= kept;
        row0 *= kept.x;
        row1 *= kept.y;
        row2 *= kept.z;
        row3 *= kept.w;
        if (slice < SLICES) {
            for (var i = slice; i < min(KEYS, params.keys - begin); i += 4u * SLICES) {
                let a = weighed(side, i, begin, v_at + quad * 4u);
                let b = weighed(side, i + SLICES, begin, v_at + quad * 4u);
                let c = weighed(side, i + 2u * SLICES, begin, v_at + quad * 4u);
                let d = weighed(side, i + 3u * SLICES, begin, v_at + quad * 4u);
                sums += (a.weight + b.weight) + (c.weight + d.weight);
                row0 = fma(vec4<f32>(a.weight.x), a.value, row0);
                row1 = fma(vec4<f32>(a.weight.y), a.value, row1);
                row2 = fma(vec4<f32>(a.weight.z), a.value, row2);
                row3 = fma(vec4<f32>(a.weight.w), a.value, row3);
                row0 = fma(vec4<f32>(b.weight.x), b.value, row0);
                row1 = fma(vec4<f32>(b.weight.y), b.value, row1);
                row2 = fma(vec4<f32>(b.weight.z), b.value, row2);
                row3 = fma(vec4<f32>(b.weight.w), b.value, row3);
                row0 = fma(vec4<f32>(c.weight.x), c.value, row0);
                row1 = fma(vec4<f32>(c.weight.y), c.value, row1);
                row2 = fma(vec4<f32>(c.weight.z), c.value, row2);
                row3 = fma(vec4<f32>(c.weight.w), c.value, row3);
                row0 = fma(vec4<f32>(d.weight.x), d.value, row0);
                row1 = fma(vec4<f32>(d.weight.y), d.value, row1);
                row2 = fma(vec4<f32>(d.weight.z), d.value, row2);
                row3 = fma(vec4<f32>(d.weight.w), d.value, row3);
            }
        }
        workgroupBarrier();
    }

    sums = over_slices(thread, sums);
    row0 = over_slices(thread, row0);
    row1 = over_slices(thread, row1);
    row2 = over_slices(thread, row2);
    row3 = over_slices(thread, row3);
    if (member >= VALUE_QUADS) {
        return;
    }
    // Rows with a NaN or an inf have no softmax.
    let odd = (bitcast<vec4<u32>>(maximum) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u);
    let known = select(1.0 / sums, vec4<f32>(params.hidden), sums == vec4<f32>());
    let share = select(known, vec4<f32>(params.nan), odd);
    let at = dot(place, params.output.xy);
    let token = first + side * 4u;
    if (token <= last) { output[(at + token * params.output.z) / 4u + quad] = vec4<Stored>(row0 * share.x); }
    if (token + 1u <= last) { output[(at + (token + 1u) * params.output.z) / 4u + quad] = vec4<Stored>(row1 * share.y); }
    if (token + 2u <= last) { output[(at + (token + 2u) * params.output.z) / 4u + quad] = vec4<Stored>(row2 * share.z); }
    if (token + 3u <= last) { output[(at + (token + 3u) * params.output.z) / 4u + quad] = vec4<Stored>(row3 * share.w); }
}
