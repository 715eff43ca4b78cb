// Attention for many queries by subgroup matrices; attention_split_f16.wgsl has split keys and values into f16. Heads have 64
// or 128 elements.
//
// A workgroup takes a tile of 64 rows and walks its keys 32 at a time, with a running maximum and sum of each row. A
// subgroup has 16 rows: their queries stay in registers as matrices, logits and results go to the lanes by way of shared
// memory. There two lanes have a row: each weighs 16 of the 32 keys, and adds up half of the elements of the output.

// use lib/matrix/subgroup_matrix.wgsl
// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/attention_blocks.wgsl
// use lib/matrix/f16_scaling.wgsl

alias Stored = ${FLOAT};
alias Out = ${OUT}; // Stored; f32 if attention_flash_reduce.wgsl follows

@group(0) @binding(0) var<storage, read> q: array<vec4<Stored>>;
@group(0) @binding(1) var<storage, read> split_f16: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scales: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<Out>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(6) var<uniform> position: vec4<i32>;
@group(0) @binding(7) var<uniform> params: Params;

const ROWS = 64u;
const LINE = 3u; // see lib/matrix/subgroup_matrix_tile.wgsl
const BLOCK = 16u * LINE;
const SUMS_LINE = 5u; // so that eight rows lie in eight different parts of shared memory
const STAGED = PARTS * 4u; // pairs of the keys or values of a round; then come two pairs of each subgroup
const PAIRS = STAGED + 8u;
var<workgroup> pairs: array<array<vec4<u32>, 2u * BLOCK>, PAIRS>;

// use lib/matrix/matrices_${MATRICES}.wgsl
// use lib/attention/attention_products.wgsl

// Queries

// Two invocations share a row. Rows past the last one repeat it; they are not written.
fn stage_queries(job: Job, thread: u32, round: u32) {
    let line = thread / 2u;
    let row = min(job.tile * ROWS + line, params.tokens * GROUP - 1u);
    let head = job.key_head * GROUP + row % GROUP;
    let start = (job.batch * params.q.x + head * params.q.y + row / GROUP * params.q.z) / 4u;
    var size = 0u;
    for (var quad = 0u; quad < HEAD / 4u; quad++) {
        size = max(size, absmax_bits(params.scale * vec4<f32>(q[start + quad])));
    }
    let exponent = scaling_of(size);
    let scale = inverse_of(exponent);
    for (var step = 0u; step < 4u; step++) {
        let quad = start + round * 16u + step * 4u + thread % 2u * 2u;
        let first = params.scale * vec4<f32>(q[quad]);
        let second = params.scale * vec4<f32>(q[quad + 1u]);
        let unit = split_unit(first * scale, second * scale);
        let pair = step / 2u * 4u + line / 16u;
        let place = step % 2u * BLOCK + line % 16u * LINE + thread % 2u;
        pairs[pair][place] = unit.high;
        if (PARTS == 2u) {
            pairs[8u + pair][place] = unit.low;
        }
    }
    if (thread % 2u == 0u) { // the padding of a line has its scale
        pairs[line / 16u][line % 16u * LINE + 2u].x = bitcast<u32>(scale_of(exponent, 0));
    }
}

// Keys and values on their way from memory to shared memory

struct Fetched {
    u0: vec4<u32>,
    u1: vec4<u32>,
    u2: vec4<u32>,
    u3: vec4<u32>,
}

fn fetch(at: u32, thread: u32) -> Fetched {
    var fetched: Fetched;
    fetched.u0 = split_f16[at + thread];
    fetched.u1 = split_f16[at + thread + THREADS];
    if (PARTS == 2u) {
        fetched.u2 = split_f16[at + thread + 2u * THREADS];
        fetched.u3 = split_f16[at + thread + 3u * THREADS];
    }
    return fetched;
}

fn stage(thread: u32, fetched: Fetched) {
    let pair = thread / 64u;
    let place = thread / 2u % 32u * LINE + thread % 2u;
    pairs[pair][place] = fetched.u0;
    pairs[pair + 2u][place] = fetched.u1;
    if (PARTS == 2u) {
        pairs[pair + 4u][place] = fetched.u2;
        pairs[pair + 6u][place] = fetched.u3;
    }
}

// Softmax

// 16 numbers of a lane.
struct Line {
    l0: vec4<f32>,
    l1: vec4<f32>,
    l2: vec4<f32>,
    l3: vec4<f32>,
}

struct Query {
    job: Job,
    head: u32,
    token: u32,
    scale: f32,
}

fn hidden_keys(logits: vec4<f32>, query: Query, key: u32, end: u32) -> vec4<f32> {
    return masked_keys(logits, query.job.batch, query.head, query.token, key, end);
}

// The logits of a row with 16 keys; `scale` is the place of the first one's.
fn logits_line(pair: u32, row: u32, query: Query, scale: u32, key: u32, end: u32, hides: bool) -> Line {
    let at = row * SUMS_LINE;
    var line = Line(
        bitcast<vec4<f32>>(pairs[pair][at]) * query.scale * scales[scale],
        bitcast<vec4<f32>>(pairs[pair][at + 1u]) * query.scale * scales[scale + 1u],
        bitcast<vec4<f32>>(pairs[pair][at + 2u]) * query.scale * scales[scale + 2u],
        bitcast<vec4<f32>>(pairs[pair][at + 3u]) * query.scale * scales[scale + 3u],
    );
    if (hides) {
        line.l0 = hidden_keys(line.l0, query, key, end);
        line.l1 = hidden_keys(line.l1, query, key + 4u, end);
        line.l2 = hidden_keys(line.l2, query, key + 8u, end);
        line.l3 = hidden_keys(line.l3, query, key + 12u, end);
    }
    return line;
}

fn highest_of(line: Line) -> f32 {
    let found = max(max(line.l0, line.l1), max(line.l2, line.l3));
    return max(max(found.x, found.y), max(found.z, found.w));
}

fn line_weights(line: Line, highest: f32) -> Line {
    let top = vec4<f32>(highest);
    return Line(weights_of(line.l0, top), weights_of(line.l1, top), weights_of(line.l2, top), weights_of(line.l3, top));
}

fn store_weights(subgroup: u32, place: u32, weights: Line) {
    let power = power_of_two(WEIGHT_POWER);
    let first = split_unit(weights.l0 * power, weights.l1 * power);
    let second = split_unit(weights.l2 * power, weights.l3 * power);
    pairs[own_pair(subgroup, 0u)][place] = first.high;
    pairs[own_pair(subgroup, 0u)][place + 1u] = second.high;
    if (PARTS == 2u) {
        pairs[own_pair(subgroup, 1u)][place] = first.low;
        pairs[own_pair(subgroup, 1u)][place + 1u] = second.low;
    }
}

// Results

// A lane's share of 64 elements of the output: eight of each 16.
struct Result {
    r0: vec4<f32>,
    r1: vec4<f32>,
    r2: vec4<f32>,
    r3: vec4<f32>,
    r4: vec4<f32>,
    r5: vec4<f32>,
    r6: vec4<f32>,
    r7: vec4<f32>,
}

fn summed(result: vec4<f32>, correction: f32, pair: u32, at: u32, scale: u32) -> vec4<f32> {
    return fma(result, vec4<f32>(correction), bitcast<vec4<f32>>(pairs[pair][at]) * scales[scale]);
}

// Called by all invocations; the pairs of the subgroups are free. `scale` is the place of those of the lane's first elements.
fn accumulate_output(result: Result, place: Place, sums: Values, correction: f32, scale: u32) -> Result {
    let left = own_pair(subgroup_of(place), 0u);
    let right = left + 1u;
    let at = lane_of(place) % 16u * SUMS_LINE + lane_of(place) / 16u * 2u;
    var found: Result;
    store_sums(sums.s0, left);
    store_sums(sums.s1, right);
    workgroupBarrier();
    found.r0 = summed(result.r0, correction, left, at, scale);
    found.r1 = summed(result.r1, correction, left, at + 1u, scale + 1u);
    found.r2 = summed(result.r2, correction, right, at, scale + 4u);
    found.r3 = summed(result.r3, correction, right, at + 1u, scale + 5u);
    workgroupBarrier();
    store_sums(sums.s2, left);
    store_sums(sums.s3, right);
    workgroupBarrier();
    found.r4 = summed(result.r4, correction, left, at, scale + 8u);
    found.r5 = summed(result.r5, correction, left, at + 1u, scale + 9u);
    found.r6 = summed(result.r6, correction, right, at, scale + 12u);
    found.r7 = summed(result.r7, correction, right, at + 1u, scale + 13u);
    workgroupBarrier();
    return found;
}

fn write_result(at: u32, result: Result, factor: f32) {
    output[at] = vec4<Out>(result.r0 * factor);
    output[at + 1u] = vec4<Out>(result.r1 * factor);
    output[at + 4u] = vec4<Out>(result.r2 * factor);
    output[at + 5u] = vec4<Out>(result.r3 * factor);
    output[at + 8u] = vec4<Out>(result.r4 * factor);
    output[at + 9u] = vec4<Out>(result.r5 * factor);
    output[at + 12u] = vec4<Out>(result.r6 * factor);
    output[at + 13u] = vec4<Out>(result.r7 * factor);
}

fn attend(job: Job, place: Place) {
    let thread = place.thread;
    let subgroup = subgroup_of(place);
    let row = lane_of(place) % 16u;
    let half = lane_of(place) / 16u;
    let rows = params.tokens * GROUP;
    let at_row = job.tile * ROWS + subgroup * 16u + row;
    let token = min(at_row / GROUP, params.tokens - 1u);
    let head = job.key_head * GROUP + at_row % GROUP;

    var keys = live_keys();
    if (CAUSAL) {
        let last = min((job.tile + 1u) * ROWS, rows) - 1u;
        keys = min(keys, u32(position.x) + last / GROUP + 1u);
    }
    let begin = first_key(job.tile * ROWS / GROUP) / KEYS * KEYS; // blocks start at multiples of their keys
    let share = begin + split_range(job.split, keys - begin, KEYS, KEYS);
    let end = share.y;
    // Up to this key, no key is hidden from a row of the tile.
    var seen = end;
    if (CAUSAL) {
        seen = min(end, u32(position.x) + job.tile * ROWS / GROUP + 1u);
    }
    let blocks = (job.batch * params.key_heads + job.key_head) * params.width;

    stage_queries(job, thread, 0u);
    workgroupBarrier();
    let queries = queries_of(subgroup);
    let query = Query(job, head, token, bitcast<f32>(pairs[subgroup][row * LINE + 2u].x));
    workgroupBarrier();
    var more_queries: Queries;
    if (ROUNDS == 2u) {
        stage_queries(job, thread, 1u);
        workgroupBarrier();
        more_queries = queries_of(subgroup);
        workgroupBarrier();
    }

    var maximum = LOWEST_LOGIT;
    var sum = 0.0; // of the lane's weights
    var result: Result;
    var more_result: Result;
    var next: Fetched;
    if (share.x < end) {
        next = fetch((blocks + share.x / KEYS) * CHUNK, thread);
    }
    for (var first = share.x; first < end; first += KEYS) {
        let chunk = (blocks + first / KEYS) * CHUNK;
        let scale = (blocks + first / KEYS) * (SCALES / 4u);
        stage(thread, next);
        workgroupBarrier();
        next = fetch(chunk + SPAN, thread); // more keys, or values
        var sums = logits_of(queries);
        if (ROUNDS == 2u) {
            workgroupBarrier();
            stage(thread, next);
            workgroupBarrier();
            next = fetch(chunk + 2u * SPAN, thread);
            sums = accumulate_logits(sums, more_queries);
        }
        store_sums(sums.s0, own_pair(subgroup, 0u));
        store_sums(sums.s1, own_pair(subgroup, 1u));
        workgroupBarrier();
        stage(thread, next);
        if (ROUNDS == 2u) {
            next = fetch(chunk + 3u * SPAN, thread);
        } else if (first + KEYS < end) {
            next = fetch(chunk + CHUNK, thread);
        }
        let hides = MASK != NO_MASK || first + KEYS > seen || params.window > 0u || params.soft_cap > 0.0;
        let key = first + half * 16u;
        let other_key = first + (1u - half) * 16u;
        let line = logits_line(own_pair(subgroup, half), row, query, scale + half * 4u, key, end, hides);
        let other = logits_line(own_pair(subgroup, 1u - half), row, query, scale + (1u - half) * 4u, other_key, end, hides);
        let highest = max(maximum, max(highest_of(line), highest_of(other)));
        let correction = exp(maximum - highest);
        let weights = line_weights(line, highest);
        maximum = highest;
        sum = fma(sum, correction, dot((weights.l0 + weights.l1) + (weights.l2 + weights.l3), vec4<f32>(1.0)));
        workgroupBarrier();
        store_weights(subgroup, half * BLOCK + row * LINE, weights);
        workgroupBarrier();
        let values = weighted_values(subgroup);
        workgroupBarrier();
        var more_values: Values;
        if (ROUNDS == 2u) {
            stage(thread, next);
            if (first + KEYS < end) {
                next = fetch(chunk + CHUNK, thread);
            }
            workgroupBarrier();
            more_values = weighted_values(subgroup);
            workgroupBarrier();
        }
        result = accumulate_output(result, place, values, correction, scale + 8u + half * 2u);
        if (ROUNDS == 2u) {
            more_result = accumulate_output(more_result, place, more_values, correction, scale + 24u + half * 2u);
        }
    }

    pairs[subgroup][lane_of(place)].x = bitcast<u32>(sum);
    workgroupBarrier();
    sum += bitcast<f32>(pairs[subgroup][lane_of(place) ^ 16u].x);
    if (at_row >= rows) {
        return;
    }
    // A row without any key is zero.
    var factor = select(1.0 / sum, 0.0, sum == 0.0);
    var start = job.batch * params.output.x + head * params.output.y + token * params.output.z;
    if (params.splits > 1u) {
        let line = ((job.batch * params.tokens + token) * params.key_heads * GROUP + head) * params.splits + job.split;
        factor = 1.0;
        start = line * VALUE_HEAD;
        if (half == 0u) {
            stats[line] = vec2<f32>(maximum, sum);
        }
    }
    write_result(start / 4u + half * 2u, result, factor);
    if (ROUNDS == 2u) {
        write_result(start / 4u + 16u + half * 2u, more_result, factor);
    }
}

@compute @workgroup_size(THREADS) ${SUBGROUP_SIZE}
fn main(
    place: Place,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if (index < params.workgroups) {
        attend(job_of(index), place);
    }
}
