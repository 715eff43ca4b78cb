// Attention for a few queries over many keys: the keys are split over workgroups.
//
// A workgroup takes ROWS rows and one share of the keys, 64 at a time. First four invocations share
// a key and each sums a quarter of its dot products with all rows; then they spread over the
// quads of the values, several keys at once. So all rows read each key and value once.
//
// Keys and values of the queries' own positions (`fresh`) need not be in the cache yet. They are
// read from where they were computed, and kept on the way: the workgroup that walks a key is the
// only one that touches its place in the cache, so nothing waits for anything.
//
// Goes with lib/attention.wgsl and lib/attention_mask.wgsl. The kernel declares the caches `k` and `v`,
// `output`, `stats`, and
//     fn q_quad(job: Job, row: u32, quad: u32) -> vec4<f32>
//     fn fresh_key(job: Job, key: u32, quad: u32) -> vec4<Stored>, and `fresh_value`

const SIZE = 256u;
const KEYS = 64u;
const LANES = 4u; // invocations to a key
const PITCH = 72u; // of a lane: 64 keys, and room so that lanes meet in no memory bank
const PARTS = 8u; // of the keys, to find a row's maximum
const LEAST = 32u; // keys that are worth a workgroup
const ROWS = ${ROWS}u;
const TURNS = ${TURNS}u; // of the invocations, to sum the values of all 64 keys
const POOL = max(ROWS * LANES * PITCH, SIZE * 5u);

override FRESH: bool;
override QUADS: u32 = (HEAD + 3u) / 4u;
override VALUE_QUADS: u32 = (VALUE_HEAD + 3u) / 4u;
override GROUPS: u32 = SIZE / VALUE_QUADS; // of keys, while values are summed

alias Stored = ${FLOAT};
alias Out = ${OUT}; // Stored; f32 for what attention_merge.wgsl adds up

var<workgroup> queries: array<vec4<f32>, ROWS * QUADS>;
var<workgroup> pool: array<f32, POOL>; // parts of dot products, later of the result
var<workgroup> weights: array<f32, ROWS * KEYS>; // logits, then what exp makes of them
var<workgroup> part_maxima: array<f32, ROWS * PARTS>;
var<workgroup> maxima: array<f32, ROWS>;
var<workgroup> corrections: array<f32, ROWS>;

fn is_fresh(key: u32) -> bool {
    return FRESH && key >= u32(position.x) && key < u32(position.x) + params.tokens;
}

fn k_quad(job: Job, key: u32, quad: u32) -> vec4<f32> {
    let start = job.batch * params.k.x + job.key_head * params.k.y + key * params.k.z;
    if (is_fresh(key)) {
        let value = fresh_key(job, key, quad);
        if (job.tile == 0u) {
            ${KEEP_KEY}
        }
        return vec4<f32>(value);
    }
    if (HEAD % 4u == 0u) {
        return vec4<f32>(k[start / 4u + quad]);
    }
    var result = vec4<f32>();
    for (var i = 0u; i < min(4u, HEAD - quad * 4u); i++) {
        let at = start + quad * 4u + i;
        result[i] = f32(k[at / 4u][at % 4u]);
    }
    return result;
}

fn v_quad(job: Job, key: u32, quad: u32) -> vec4<f32> {
    let start = job.batch * params.v.x + job.key_head * params.v.y + key * params.v.z;
    if (is_fresh(key)) {
        let value = fresh_value(job, key, quad);
        if (job.tile == 0u) {
            ${KEEP_VALUE}
        }
        return vec4<f32>(value);
    }
    if (VALUE_HEAD % 4u == 0u) {
        return vec4<f32>(v[start / 4u + quad]);
    }
    var result = vec4<f32>();
    for (var i = 0u; i < min(4u, VALUE_HEAD - quad * 4u); i++) {
        let at = start + quad * 4u + i;
        result[i] = f32(v[at / 4u][at % 4u]);
    }
    return result;
}

fn head_of(job: Job, row: u32) -> u32 {
    return job.key_head * GROUP + row % GROUP;
}

// The row of scratch memory that takes a row's share of the result.
fn line_of(job: Job, row: u32) -> u32 {
    let token = job.batch * params.tokens + row / GROUP;
    return (token * params.key_heads * GROUP + head_of(job, row)) * params.splits + job.split;
}

// Logits of 64 keys with all rows, into `weights`.
fn find_logits(job: Job, first: u32, end: u32, local: u32) {
    let lane = local % LANES;
    let key = first + local / LANES;
    var dots = array<f32, ROWS>();
    if (key < end) {
        for (var step = 0u; step < QUADS; step += LANES) {
            let quad = step + lane;
            if (quad < QUADS) {
                let value = k_quad(job, key, quad);
                for (var r = 0u; r < ROWS; r++) {
                    dots[r] = dot_onto(dots[r], queries[r * QUADS + quad], value);
                }
            }
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        pool[(r * LANES + lane) * PITCH + local / LANES] = dots[r];
    }
    workgroupBarrier();
    for (var i = local; i < ROWS * KEYS; i += SIZE) {
        let at = i / KEYS * LANES * PITCH + i % KEYS;
        let logit = pool[at] + pool[at + PITCH] + pool[at + 2u * PITCH] + pool[at + 3u * PITCH];
        let row = min(job.tile * ROWS + i / KEYS, params.tokens * GROUP - 1u);
        weights[i] = masked(logit, job.batch, head_of(job, row), row / GROUP, first + i % KEYS, end);
    }
}

// From logits to weights, with the new maximum of each row and what it does to earlier sums.
fn find_weights(local: u32) {
    if (local < ROWS * PARTS) {
        var highest = FLOOR;
        for (var i = 0u; i < KEYS / PARTS; i++) {
            highest = max(highest, weights[local / PARTS * KEYS + i * PARTS + local % PARTS]);
        }
        part_maxima[local] = highest;
    }
    workgroupBarrier();
    if (local < ROWS) {
        var highest = maxima[local];
        for (var i = 0u; i < PARTS; i++) {
            highest = max(highest, part_maxima[local * PARTS + i]);
        }
        corrections[local] = exp(maxima[local] - highest);
        maxima[local] = highest;
    }
    workgroupBarrier();
    for (var i = local; i < ROWS * KEYS; i += SIZE) {
        weights[i] = weight_of(weights[i], maxima[i / KEYS]);
    }
}

// Where a query lies.
fn query_start(job: Job, row: u32) -> u32 {
    return job.batch * params.q.x + head_of(job, row) * params.q.y + row / GROUP * params.q.z;
}

// Where a fresh key or value lies, in its own tensor.
fn fresh_start(job: Job, key: u32) -> u32 {
    let token = key - u32(position.x);
    return job.batch * params.fresh.x + job.key_head * params.fresh.y + token * params.fresh.z;
}

// The work of workgroup `index`, for its invocation `local`.
fn attend(index: u32, local: u32) {
    if (index >= params.workgroups) {
        return;
    }
    let job = job_of(index);
    let rows = params.tokens * GROUP;
    let share = share_of(job.split, live_keys(), 1u, LEAST);
    if (params.splits > 1u && share.x >= share.y) {
        if (local < ROWS && job.tile * ROWS + local < rows) {
            stats[line_of(job, job.tile * ROWS + local)] = vec2<f32>(FLOOR, 0.0);
        }
        return;
    }
    for (var i = local; i < ROWS * QUADS; i += SIZE) {
        let row = min(job.tile * ROWS + i / QUADS, rows - 1u);
        queries[i] = params.scale * q_quad(job, row, i % QUADS);
    }
    if (local < ROWS) {
        maxima[local] = FLOOR;
    }
    workgroupBarrier();

    let group = local / VALUE_QUADS;
    let quad = local % VALUE_QUADS;
    var result = array<vec4<f32>, ROWS>();
    var sums = array<f32, ROWS>();
    for (var first = share.x; first < share.y; first += KEYS) {
        // Values are on their way while the logits are found.
        var values = array<vec4<f32>, TURNS>();
        for (var turn = 0u; turn < TURNS; turn++) {
            let slot = turn * GROUPS + group;
            if (group < GROUPS && slot < KEYS && first + slot < share.y) {
                values[turn] = v_quad(job, first + slot, quad);
            }
        }
        find_logits(job, first, share.y, local);
        workgroupBarrier();
        find_weights(local);
        workgroupBarrier();
        for (var r = 0u; r < ROWS; r++) {
            result[r] *= corrections[r];
            sums[r] *= corrections[r];
        }
        for (var turn = 0u; turn < TURNS; turn++) {
            let slot = turn * GROUPS + group;
            if (group < GROUPS && slot < KEYS) {
                for (var r = 0u; r < ROWS; r++) {
                    let weight = weights[r * KEYS + slot];
                    result[r] += weight * values[turn];
                    sums[r] += weight;
                }
            }
        }
    }

    for (var r = 0u; r < ROWS; r++) {
        workgroupBarrier();
        for (var i = 0u; i < 4u; i++) {
            pool[i * SIZE + local] = result[r][i];
        }
        pool[4u * SIZE + local] = sums[r];
        workgroupBarrier();
        let row = job.tile * ROWS + r;
        if (local < VALUE_HEAD && row < rows) {
            var total = 0.0;
            var sum = 0.0;
            for (var i = 0u; i < GROUPS; i++) {
                total += pool[local % 4u * SIZE + i * VALUE_QUADS + local / 4u];
                sum += pool[4u * SIZE + i * VALUE_QUADS];
            }
            if (params.splits > 1u) {
                let line = line_of(job, row);
                output[line * VALUE_HEAD + local] = Out(total);
                if (local == 0u) {
                    stats[line] = vec2<f32>(maxima[r], sum);
                }
            } else {
                let start = job.batch * params.output.x + head_of(job, row) * params.output.y + row / GROUP * params.output.z;
                // A row that sees no key is zero.
                output[start + local] = Out(select(total / sum, 0.0, sum == 0.0));
            }
        }
    }
}
