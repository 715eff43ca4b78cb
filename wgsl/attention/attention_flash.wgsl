// Attention for many queries: output = softmax(scale q k' + mask) v, without ever holding all logits.
//
// A workgroup takes a tile of 64 rows and walks its keys 32 at a time, with a running maximum and
// sum of each row. An invocation has 4 rows times 4 keys of the logits, and the same 4 rows times
// COLUMNS quads of the output. Values wider than 256 elements are split into slices, one per
// workgroup. Staged lines are padded by a quad, so that neighbouring lanes use different memory banks.

// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/keys_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/values_${CACHE_FORMAT}.wgsl

const ROWS = 64u;
const KEYS = 32u;
const LANES = 8u; // invocations that share their 4 rows
const STRIPS = 16u; // of 4 rows
const DEPTH = 4u; // quads of the head staged at once
const LINE = DEPTH + 1u;
const KEY_STAGE = ROWS * LINE;
const STAGE = (ROWS + KEYS) * LINE;
const WEIGHT_LINE = STRIPS + 1u;
const COLUMNS = ${COLUMNS}u;
const SLICE = COLUMNS * LANES; // quads of the output
const VALUES = ${VALUES}u; // values staged at once: VALUES * SLICE <= STAGE

override SLICES: u32;

alias Stored = ${FLOAT};
alias Out = ${OUT}; // Stored; f32 if attention_flash_reduce.wgsl follows
alias Result = array<vec4<f32>, COLUMNS * 4u>; // [column][row]

@group(0) @binding(0) var<storage, read> q: array<vec4<Stored>>;
@group(0) @binding(1) var<storage, read> k: array<CacheUnit>;
@group(0) @binding(2) var<storage, read> v: array<CacheUnit>;
@group(0) @binding(3) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(4) var<storage, read_write> output: array<Out>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(6) var<uniform> position: vec4<i32>;
@group(0) @binding(7) var<uniform> params: Params;

var<workgroup> stage: array<vec4<f32>, STAGE>;
var<workgroup> weights: array<vec4<f32>, KEYS * WEIGHT_LINE>; // [key][strip](row)

// Quads of a query, filled with zeros past its end; if the head is not a multiple of 4, its quads are not
// aligned and are gathered.
fn q_quad(row: u32, quad: u32) -> vec4<f32> {
    if (HEAD % 4u == 0u) {
        return vec4<f32>(q[row / 4u + quad]);
    }
    var result = vec4<f32>();
    for (var lane = 0u; lane < min(4u, HEAD - quad * 4u); lane++) {
        let at = row + quad * 4u + lane;
        result[lane] = f32(q[at / 4u][at % 4u]);
    }
    return result;
}

// Rows past the last one and keys past the end are zeros.
fn stage_queries(job: Job, depth: u32, local: u32) {
    for (var i = local; i < ROWS * DEPTH; i += LANES * STRIPS) {
        let row = job.tile * ROWS + i / DEPTH;
        let quad = depth + i % DEPTH;
        var value = vec4<f32>();
        if (row < params.tokens * GROUP && quad * 4u < HEAD) {
            let head = job.key_head * GROUP + row % GROUP;
            let start = job.batch * params.q.x + head * params.q.y + row / GROUP * params.q.z;
            value = params.scale * q_quad(start, quad);
        }
        stage[i / DEPTH * LINE + i % DEPTH] = value;
    }
}

fn stage_keys(job: Job, depth: u32, first: u32, end: u32, local: u32) {
    let key = first + local / DEPTH;
    let quad = depth + local % DEPTH;
    var value = vec4<f32>();
    if (key < end && quad * 4u < HEAD) {
        value = cached_key(job.batch * params.k.x + job.key_head * params.k.y + key * params.k.z, quad);
    }
    stage[KEY_STAGE + local / DEPTH * LINE + local % DEPTH] = value;
}

fn stage_values(job: Job, column: u32, first: u32, end: u32, local: u32) {
    for (var i = local; i < VALUES * SLICE; i += LANES * STRIPS) {
        let key = first + i / SLICE;
        let quad = column + i % SLICE;
        var value = vec4<f32>();
        if (key < end && quad * 4u < VALUE_HEAD) {
            value = cached_value(job.batch * params.v.x + job.key_head * params.v.y + key * params.v.z, quad);
        }
        stage[i] = value;
    }
}

// The logits of 4 keys of this invocation with its 4 rows.
fn find_logits(job: Job, first: u32, end: u32, local: u32) -> array<vec4<f32>, 4> {
    let lane = local % LANES;
    let line = local / LANES * 4u * LINE;
    var logits = array<vec4<f32>, 4>();
    for (var depth = 0u; depth * 4u < HEAD; depth += DEPTH) {
        workgroupBarrier();
        stage_queries(job, depth, local);
        stage_keys(job, depth, first, end, local);
        workgroupBarrier();
        for (var d = 0u; d < DEPTH; d++) {
            let q0 = stage[line + d];
            let q1 = stage[line + LINE + d];
            let q2 = stage[line + 2u * LINE + d];
            let q3 = stage[line + 3u * LINE + d];
            for (var i = 0u; i < 4u; i++) {
                let key = stage[KEY_STAGE + (lane + LANES * i) * LINE + d];
                logits[i] = vec4<f32>(
                    fma_dot(logits[i].x, q0, key),
                    fma_dot(logits[i].y, q1, key),
                    fma_dot(logits[i].z, q2, key),
                    fma_dot(logits[i].w, q3, key),
                );
            }
        }
    }
    return logits;
}

// Adds the weighted values of 32 keys to the result.
fn add_values(job: Job, column: u32, first: u32, end: u32, local: u32, result: ptr<function, Result>) {
    let lane = local % LANES;
    let strip = local / LANES;
    for (var part = 0u; part < KEYS; part += VALUES) {
        workgroupBarrier();
        stage_values(job, column, first + part, end, local);
        workgroupBarrier();
        for (var i = 0u; i < VALUES; i++) {
            let weight = weights[(part + i) * WEIGHT_LINE + strip];
            for (var c = 0u; c < COLUMNS; c++) {
                let value = stage[i * SLICE + c * LANES + lane];
                (*result)[c * 4u] = fma(vec4<f32>(weight.x), value, (*result)[c * 4u]);
                (*result)[c * 4u + 1u] = fma(vec4<f32>(weight.y), value, (*result)[c * 4u + 1u]);
                (*result)[c * 4u + 2u] = fma(vec4<f32>(weight.z), value, (*result)[c * 4u + 2u]);
                (*result)[c * 4u + 3u] = fma(vec4<f32>(weight.w), value, (*result)[c * 4u + 3u]);
            }
        }
    }
}

fn store(start: u32, element: u32, value: vec4<f32>) {
    for (var i = 0u; i < 4u; i++) {
        if (element + i < VALUE_HEAD) {
            output[start + element + i] = Out(value[i]);
        }
    }
}

@compute @workgroup_size(LANES * STRIPS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if (index >= params.workgroups) {
        return;
    }
    let job = job_of(index / SLICES);
    let rows = params.tokens * GROUP;
    let column = index % SLICES * SLICE;
    let lane = local % LANES;
    let strip = local / LANES;
    let row = job.tile * ROWS + strip * 4u + vec4<u32>(0u, 1u, 2u, 3u);
    let token = min(row / GROUP, vec4<u32>(params.tokens - 1u));
    let head = job.key_head * GROUP + row % GROUP;

    var keys = live_keys();
    if (CAUSAL) {
        let last = min((job.tile + 1u) * ROWS, rows) - 1u;
        keys = min(keys, u32(position.x) + last / GROUP + 1u);
    }
    let begin = first_key(job.tile * ROWS / GROUP);
    let share = begin + split_range(job.split, keys - begin, KEYS, KEYS);
    let end = share.y;

    var maximum = vec4<f32>(LOWEST_LOGIT);
    var sum = vec4<f32>();
    var result = Result();
    for (var first = share.x; first < end; first += KEYS) {
        var logits = find_logits(job, first, end, local);
        var highest = maximum;
        for (var i = 0u; i < 4u; i++) {
            let key = first + lane + LANES * i;
            for (var r = 0u; r < 4u; r++) {
                logits[i][r] = masked(logits[i][r], job.batch, head[r], token[r], key, end);
            }
            highest = max(highest, logits[i]);
        }
        workgroupBarrier();
        stage[lane * STRIPS + strip] = highest;
        workgroupBarrier();
        for (var i = 0u; i < LANES; i++) {
            highest = max(highest, stage[i * STRIPS + strip]);
        }
        let correction = exp(maximum - highest);
        maximum = highest;
        sum *= correction;
        for (var i = 0u; i < 4u; i++) {
            var weight = vec4<f32>();
            for (var r = 0u; r < 4u; r++) {
                weight[r] = weight_of(logits[i][r], highest[r]);
            }
            sum += weight;
            weights[(lane + LANES * i) * WEIGHT_LINE + strip] = weight;
        }
        for (var c = 0u; c < COLUMNS; c++) {
            for (var r = 0u; r < 4u; r++) {
                result[c * 4u + r] *= correction[r];
            }
        }
        add_values(job, column, first, end, local, &result);
    }

    workgroupBarrier();
    stage[lane * STRIPS + strip] = sum;
    workgroupBarrier();
    sum = vec4<f32>();
    for (var i = 0u; i < LANES; i++) {
        sum += stage[i * STRIPS + strip];
    }
    // A row without any key is zero.
    var factor = select(1.0 / sum, vec4<f32>(), sum == vec4<f32>());
    var start = job.batch * params.output.x + head * params.output.y + token * params.output.z;
    if (params.splits > 1u) {
        let line = ((job.batch * params.tokens + token) * params.key_heads * GROUP + head) * params.splits + job.split;
        factor = vec4<f32>(1.0);
        start = line * VALUE_HEAD;
        for (var r = 0u; r < 4u; r++) {
            if (lane == 0u && column == 0u && row[r] < rows) {
                stats[line[r]] = vec2<f32>(maximum[r], sum[r]);
            }
        }
    }
    for (var c = 0u; c < COLUMNS; c++) {
        let element = (column + c * LANES + lane) * 4u;
        for (var r = 0u; r < 4u; r++) {
            if (row[r] < rows) {
                store(start[r], element, factor[r] * result[c * 4u + r]);
            }
        }
    }
}
