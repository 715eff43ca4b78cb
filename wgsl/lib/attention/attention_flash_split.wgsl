// Attention for a few queries over many keys: the keys are split over workgroups.
//
// A workgroup takes four rows and one split of the keys, 16 to 64 at a time. First some invocations share
// a key, the more the longer it is, and each sums its part of the dot products with all rows; then each takes a
// quad of the values, of several keys at once. So all rows read each key and value once, and keys and values of a
// step are prefetched: with few keys per workgroup, latency and barriers take most of the time. Rows are
// the components of vectors, not elements of arrays, which compilers keep in memory.
//
// Keys and values of the queries' own positions (new keys) need not be in the cache yet. They are
// read from where they were computed and written to the cache on the way. Only the workgroup that walks
// a key touches its place in the cache, so no synchronization is needed.
//
// Goes with lib/attention/attention.wgsl, attention_mask.wgsl and lib/attention/cache/. The kernel declares the caches `k`
// and `v`, `output`, `stats`, and
//     fn q_quad(job: Job, row: u32, quad: u32) -> vec4<f32>
//     fn new_key(job: Job, key: u32, quad: u32) -> vec4<Stored>, and `new_value`

const THREADS = 256u;
const LANES = ${LANES}u; // invocations per key
const KEYS = THREADS / LANES; // at a time
const PITCH = KEYS + 2u; // of a lane, with padding so that lanes use different memory banks
const ROWS = 4u;
const PARTS = KEYS / 4u; // of the sums of weights
const MIN_SPLIT_KEYS = KEYS; // of a workgroup
const QUADS = ${QUADS}u; // of HEAD elements, the last one not always full

override HAS_NEW: bool;
override VALUE_QUADS: u32 = (VALUE_HEAD + 3u) / 4u;
override GROUPS: u32 = THREADS / VALUE_QUADS; // of keys, while values are summed

alias Stored = ${FLOAT};
alias Out = ${OUT}; // Stored; f32 for what attention_flash_reduce.wgsl adds up

// Four quads: of a key, of the values of four keys, or of four rows of the result.
struct Block {
    f0: vec4<f32>,
    f1: vec4<f32>,
    f2: vec4<f32>,
    f3: vec4<f32>,
}

var<workgroup> queries: array<vec4<f32>, ROWS * QUADS>;
var<workgroup> partials: array<vec4<f32>, 2u * THREADS>; // parts of dot products (rows), later of the result
var<workgroup> logits: array<vec4<f32>, KEYS>; // (rows), as are the following
var<workgroup> weights: array<vec4<f32>, KEYS>;
var<workgroup> sums: array<vec4<f32>, PARTS>;
var<workgroup> maximum: vec4<f32>;
var<workgroup> next_maximum: vec4<f32>;
var<workgroup> correction: vec4<f32>;

fn is_new(key: u32) -> bool {
    return HAS_NEW && key >= u32(position.x) && key < u32(position.x) + params.tokens;
}

fn key_start(job: Job, key: u32) -> u32 {
    return job.cache * params.k.x + job.key_head * params.k.y + key * params.k.z;
}

fn value_start(job: Job, key: u32) -> u32 {
    return job.cache * params.v.x + job.key_head * params.v.y + key * params.v.z;
}

fn k_quad(job: Job, key: u32, quad: u32) -> vec4<f32> {
    let start = key_start(job, key);
    if (is_new(key)) {
        return append_key(job, key, quad, start);
    }
    return cached_key(start, quad);
}

fn v_quad(job: Job, key: u32, quad: u32) -> vec4<f32> {
    let start = value_start(job, key);
    if (is_new(key)) {
        return append_value(job, key, quad, start);
    }
    return cached_value(start, quad);
}

fn head_of(job: Job, row: u32) -> u32 {
    return job.key_head * GROUP + row % GROUP;
}

// The row of scratch memory for this split's partial result.
fn scratch_row_of(job: Job, row: u32) -> u32 {
    let token = job.batch * params.tokens + row / GROUP;
    return (token * params.key_heads * GROUP + head_of(job, row)) * params.splits + job.split;
}

// Four quads of a key, each LANES from the one before; zeros past the last.
fn fetch_key(job: Job, key: u32, quad: u32) -> Block {
    var result = Block(k_quad(job, key, quad), vec4<f32>(), vec4<f32>(), vec4<f32>());
    if (quad + LANES < QUADS) {
        result.f1 = k_quad(job, key, quad + LANES);
    }
    if (quad + 2u * LANES < QUADS) {
        result.f2 = k_quad(job, key, quad + 2u * LANES);
    }
    if (quad + 3u * LANES < QUADS) {
        result.f3 = k_quad(job, key, quad + 3u * LANES);
    }
    return result;
}

// A quad of the values of four keys, each GROUPS from the one before; zeros from `end` on.
fn fetch_values(job: Job, key: u32, end: u32, quad: u32) -> Block {
    var result = Block();
    if (key < end) {
        result.f0 = v_quad(job, key, quad);
    }
    if (key + GROUPS < end) {
        result.f1 = v_quad(job, key + GROUPS, quad);
    }
    if (key + 2u * GROUPS < end) {
        result.f2 = v_quad(job, key + 2u * GROUPS, quad);
    }
    if (key + 3u * GROUPS < end) {
        result.f3 = v_quad(job, key + 3u * GROUPS, quad);
    }
    return result;
}

// Whether a step has all its keys, all of them in the cache. Then no branch stands between its reads: with
// one, each waits for the read before. At 32,000 keys that takes twice as long.
fn is_whole(first: u32, end: u32) -> bool {
    let start = u32(position.x);
    let cached = !HAS_NEW || first + KEYS <= start || first >= start + params.tokens;
    return 4u * LANES <= QUADS && 4u * GROUPS <= KEYS && cached && end - first == KEYS;
}

fn fetch_cached_key(job: Job, key: u32, quad: u32) -> Block {
    let start = key_start(job, key);
    return Block(
        cached_key(start, quad),
        cached_key(start, quad + LANES),
        cached_key(start, quad + 2u * LANES),
        cached_key(start, quad + 3u * LANES),
    );
}

fn fetch_cached_values(job: Job, key: u32, quad: u32) -> Block {
    let start = value_start(job, key);
    let step = GROUPS * params.v.z;
    return Block(
        cached_value(start, quad),
        cached_value(start + step, quad),
        cached_value(start + 2u * step, quad),
        cached_value(start + 3u * step, quad),
    );
}

// Adds one quad of a key to the dot products of all rows.
fn accumulate_key_quad(dots: vec4<f32>, quad: u32, key: vec4<f32>) -> vec4<f32> {
    if (quad >= QUADS) {
        return dots;
    }
    return vec4<f32>(
        fma_dot(dots.x, queries[quad], key),
        fma_dot(dots.y, queries[QUADS + quad], key),
        fma_dot(dots.z, queries[2u * QUADS + quad], key),
        fma_dot(dots.w, queries[3u * QUADS + quad], key),
    );
}

fn accumulate_key(dots: vec4<f32>, quad: u32, key: Block) -> vec4<f32> {
    var result = accumulate_key_quad(dots, quad, key.f0);
    result = accumulate_key_quad(result, quad + LANES, key.f1);
    result = accumulate_key_quad(result, quad + 2u * LANES, key.f2);
    return accumulate_key_quad(result, quad + 3u * LANES, key.f3);
}

fn sum_of_lanes(at: u32) -> vec4<f32> {
    return (partials[at] + partials[at + PITCH]) + (partials[at + 2u * PITCH] + partials[at + 3u * PITCH]);
}

// Between the two phases, the first invocations turn dot products into logits, a key each.
fn find_logits(job: Job, first: u32, end: u32, local: u32) {
    if (local < KEYS) {
        var dots = sum_of_lanes(local);
        if (LANES > 4u) {
            dots += sum_of_lanes(4u * PITCH + local);
        }
        if (LANES > 8u) {
            dots += sum_of_lanes(8u * PITCH + local) + sum_of_lanes(12u * PITCH + local);
        }
        let row = min(job.tile * ROWS + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.tokens * GROUP - 1u));
        let head = job.key_head * GROUP + row % GROUP;
        logits[local] = masked_rows(dots, job.batch, head, row / GROUP, first + local, end);
    }
}

// Then logits into weights. Each finds the maxima for itself: a barrier would take longer.
fn find_weights(local: u32) {
    if (local < KEYS) {
        var highest = maximum;
        for (var key = 0u; key < KEYS; key++) {
            highest = max(highest, logits[key]);
        }
        weights[local] = weights_of(logits[local], highest);
        if (local == 0u) {
            next_maximum = highest;
            correction = exp(maximum - highest);
        }
    }
}

fn accumulate_value(rows: Block, weight: vec4<f32>, value: vec4<f32>) -> Block {
    return Block(
        fma(vec4<f32>(weight.x), value, rows.f0),
        fma(vec4<f32>(weight.y), value, rows.f1),
        fma(vec4<f32>(weight.z), value, rows.f2),
        fma(vec4<f32>(weight.w), value, rows.f3),
    );
}

// Small values have more groups than there are keys; the values of the extra groups are zero.
fn weight_at(slot: u32) -> vec4<f32> {
    return weights[min(slot, KEYS - 1u)];
}

// Adds four values to the rows, from those at `slot` on.
fn accumulate_values(rows: Block, slot: u32, values: Block) -> Block {
    var result = accumulate_value(rows, weight_at(slot), values.f0);
    result = accumulate_value(result, weight_at(slot + GROUPS), values.f1);
    result = accumulate_value(result, weight_at(slot + 2u * GROUPS), values.f2);
    return accumulate_value(result, weight_at(slot + 3u * GROUPS), values.f3);
}

// Where a query lies.
fn query_start(job: Job, row: u32) -> u32 {
    return job.batch * params.q.x + head_of(job, row) * params.q.y + row / GROUP * params.q.z;
}

// Where a new key or value lies, in its own tensor.
fn new_start(job: Job, key: u32) -> u32 {
    let token = key - u32(position.x);
    return job.batch * params.new_keys.x + job.key_head * params.new_keys.y + token * params.new_keys.z;
}

// Attention over a range of keys.
fn attend_to(job: Job, share: vec2<u32>, local: u32) {
    let rows = params.tokens * GROUP;
    if (params.splits > 1u && share.x >= share.y) {
        if (local < ROWS && job.tile * ROWS + local < rows) {
            stats[scratch_row_of(job, job.tile * ROWS + local)] = vec2<f32>(LOWEST_LOGIT, 0.0);
        }
        return;
    }
    let lane = local % LANES;
    let slot = local / LANES;
    let group = local / VALUE_QUADS;
    let quad = local % VALUE_QUADS;
    var result = Block();
    var sum = vec4<f32>(); // of the weights of four keys, in the first PARTS invocations
    for (var first = share.x; first < share.y; first += KEYS) {
        let end = min(first + KEYS, share.y);
        // All reads are in flight before the first is used.
        var keys = Block();
        var values = Block();
        if (is_whole(first, end)) {
            keys = fetch_cached_key(job, first + slot, lane);
            values = fetch_cached_values(job, first + min(group, GROUPS - 1u), quad);
        } else {
            if (first + slot < end && lane < QUADS) {
                keys = fetch_key(job, first + slot, lane);
            }
            if (group < GROUPS) {
                values = fetch_values(job, first + group, end, quad);
            }
        }
        if (first == share.x) {
            stage_queries(job, local);
            workgroupBarrier();
        }
        var dots = accumulate_key(vec4<f32>(), lane, keys);
        for (var more = 4u * LANES + lane; more < QUADS; more += 4u * LANES) {
            if (first + slot < end) {
                dots = accumulate_key(dots, more, fetch_key(job, first + slot, more));
            }
        }
        partials[lane * PITCH + slot] = dots;
        workgroupBarrier();
        find_logits(job, first, end, local);
        workgroupBarrier();
        find_weights(local);
        workgroupBarrier();
        if (local == 0u) {
            maximum = next_maximum;
        }
        if (local < PARTS) {
            let own = (weights[local] + weights[PARTS + local]) + (weights[2u * PARTS + local] + weights[3u * PARTS + local]);
            sum = fma(sum, correction, own);
        }
        result = Block(correction.x * result.f0, correction.y * result.f1, correction.z * result.f2, correction.w * result.f3);
        if (group < GROUPS) {
            result = accumulate_values(result, group, values);
            for (var more = 4u * GROUPS + group; more < KEYS; more += 4u * GROUPS) {
                result = accumulate_values(result, more, fetch_values(job, first + more, end, quad));
            }
        }
    }
    if (local < PARTS) {
        sums[local] = sum;
    }
    partials[local] = result.f0;
    partials[THREADS + local] = result.f1;
    workgroupBarrier();
    write_rows(job, 0u, local);
    if (job.tile * ROWS + 2u < rows) {
        workgroupBarrier();
        partials[local] = result.f2;
        partials[THREADS + local] = result.f3;
        workgroupBarrier();
        write_rows(job, 2u, local);
    }
}

fn stage_queries(job: Job, local: u32) {
    for (var i = local; i < ROWS * QUADS; i += THREADS) {
        let row = min(job.tile * ROWS + i / QUADS, params.tokens * GROUP - 1u);
        queries[i] = params.scale * q_quad(job, row, i % QUADS);
    }
    if (local == 0u) {
        maximum = vec4<f32>(LOWEST_LOGIT);
    }
}

// The two rows that are in shared memory, of which the first is the r-th of the workgroup.
fn write_rows(job: Job, r: u32, local: u32) {
    for (var i = local; i < 2u * VALUE_HEAD; i += THREADS) {
        let row = job.tile * ROWS + r + i / VALUE_HEAD;
        if (row < params.tokens * GROUP) {
            write_element(job, row, i / VALUE_HEAD * THREADS, i % VALUE_HEAD);
        }
    }
}

fn write_element(job: Job, row: u32, place: u32, element: u32) {
    var total = 0.0;
    for (var i = 0u; i < GROUPS; i++) {
        total += partials[place + i * VALUE_QUADS + element / 4u][element % 4u];
    }
    var every = vec4<f32>();
    for (var i = 0u; i < PARTS; i++) {
        every += sums[i];
    }
    let sum = every[row % ROWS];
    if (params.splits > 1u) {
        let line = scratch_row_of(job, row);
        output[line * VALUE_HEAD + element] = Out(total);
        if (element == 0u) {
            stats[line] = vec2<f32>(maximum[row % ROWS], sum);
        }
        return;
    }
    let start = job.batch * params.output.x + head_of(job, row) * params.output.y + row / GROUP * params.output.z;
    // A row that sees no key is zero.
    output[start + element] = Out(select(total / sum, 0.0, sum == 0.0));
}
