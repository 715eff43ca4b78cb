// Attention for many queries whose heads have up to 64 elements, in quads: as attention_flash.wgsl, but the
// queries of a tile stay in shared memory, and the next keys and values are prefetched.
//
// A workgroup takes a tile of 64 rows and walks its keys 32 at a time, with a running maximum and
// sum of each row. An invocation has 4 rows times 4 keys of the logits, and the same 4 rows times
// 2 quads of the output. Queries and keys lie element by element, each with 4 rows or 4 keys to a quad.
// Shared memory takes all of the 32 KB that most GPUs have, so maxima and sums of rows reuse memory that
// is free at the time.

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
const QUADS = 16u; // of a head, at most
const THREADS = LANES * STRIPS;

alias Stored = ${FLOAT};
alias Out = ${OUT}; // Stored; f32 if attention_flash_reduce.wgsl follows

// Four rows (or keys) of four elements, or the other way around.
struct Block {
    b0: vec4<f32>,
    b1: vec4<f32>,
    b2: vec4<f32>,
    b3: vec4<f32>,
}

@group(0) @binding(0) var<storage, read> q: array<vec4<Stored>>;
@group(0) @binding(1) var<storage, read> k: array<CacheUnit>;
@group(0) @binding(2) var<storage, read> v: array<CacheUnit>;
@group(0) @binding(3) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<Out>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(6) var<uniform> position: vec4<i32>;
@group(0) @binding(7) var<uniform> params: Params;

var<workgroup> queries: array<array<array<vec4<f32>, STRIPS>, 4>, QUADS>; // [quad][element][strip](row)
// Keys, [quad][element / 2][element % 2 * 8 + quad of keys](key); then values, [key][quad](element)
var<workgroup> stage: array<array<vec4<f32>, QUADS>, KEYS>;
var<workgroup> weights: array<array<vec4<f32>, STRIPS>, KEYS>; // [key][strip](row)

fn transposed(b: Block) -> Block {
    return Block(
        vec4<f32>(b.b0.x, b.b1.x, b.b2.x, b.b3.x),
        vec4<f32>(b.b0.y, b.b1.y, b.b2.y, b.b3.y),
        vec4<f32>(b.b0.z, b.b1.z, b.b2.z, b.b3.z),
        vec4<f32>(b.b0.w, b.b1.w, b.b2.w, b.b3.w),
    );
}

// Rows past the last one repeat it; they are not written.
fn query_quad(job: Job, row: u32, quad: u32) -> vec4<f32> {
    let at = min(job.tile * ROWS + row, params.tokens * GROUP - 1u);
    let head = job.key_head * GROUP + at % GROUP;
    let start = job.batch * params.q.x + head * params.q.y + at / GROUP * params.q.z;
    return params.scale * vec4<f32>(q[start / 4u + quad]);
}

fn stage_queries(job: Job, local: u32) {
    for (var quad = local % LANES; quad < HEAD / 4u; quad += LANES) {
        let strip = local / LANES;
        let row = strip * 4u;
        let block = transposed(Block(
            query_quad(job, row, quad),
            query_quad(job, row + 1u, quad),
            query_quad(job, row + 2u, quad),
            query_quad(job, row + 3u, quad),
        ));
        queries[quad][0][strip] = block.b0;
        queries[quad][1][strip] = block.b1;
        queries[quad][2][strip] = block.b2;
        queries[quad][3][strip] = block.b3;
    }
}

// Past the last key, any key is read: its logits are excluded.
fn key_quad(job: Job, key: u32, end: u32, quad: u32) -> vec4<f32> {
    let start = job.batch * params.k.x + job.key_head * params.k.y + min(key, end - 1u) * params.k.z;
    return cached_key(start, quad);
}

// One quad of elements of the four keys of an invocation.
fn fetch_keys(job: Job, first: u32, end: u32, local: u32) -> Block {
    let key = first + local % LANES * 4u;
    let quad = min(local / LANES, HEAD / 4u - 1u);
    return Block(
        key_quad(job, key, end, quad),
        key_quad(job, key + 1u, end, quad),
        key_quad(job, key + 2u, end, quad),
        key_quad(job, key + 3u, end, quad),
    );
}

fn store_keys(local: u32, keys: Block) {
    let block = transposed(keys);
    let line = local / LANES * 2u;
    let lane = local % LANES;
    stage[line][lane] = block.b0;
    stage[line][lane + LANES] = block.b1;
    stage[line + 1u][lane] = block.b2;
    stage[line + 1u][lane + LANES] = block.b3;
}

fn value_quad(job: Job, first: u32, end: u32, at: u32) -> vec4<f32> {
    let start = job.batch * params.v.x + job.key_head * params.v.y + min(first + at / QUADS, end - 1u) * params.v.z;
    return cached_value(start, min(at % QUADS, VALUE_HEAD / 4u - 1u));
}

fn fetch_values(job: Job, first: u32, end: u32, local: u32) -> Block {
    return Block(
        value_quad(job, first, end, local),
        value_quad(job, first, end, local + THREADS),
        value_quad(job, first, end, local + 2u * THREADS),
        value_quad(job, first, end, local + 3u * THREADS),
    );
}

fn store_values(local: u32, values: Block) {
    let line = local / QUADS;
    stage[line][local % QUADS] = values.b0;
    stage[line + THREADS / QUADS][local % QUADS] = values.b1;
    stage[line + 2u * THREADS / QUADS][local % QUADS] = values.b2;
    stage[line + 3u * THREADS / QUADS][local % QUADS] = values.b3;
}

fn add_outer_product(sums: Block, a: vec4<f32>, b: vec4<f32>) -> Block {
    return Block(
        fma(vec4<f32>(a.x), b, sums.b0),
        fma(vec4<f32>(a.y), b, sums.b1),
        fma(vec4<f32>(a.z), b, sums.b2),
        fma(vec4<f32>(a.w), b, sums.b3),
    );
}

// Four keys, each with four rows.
fn find_logits(strip: u32, lane: u32) -> Block {
    var logits = Block();
    for (var quad = 0u; quad < HEAD / 4u; quad++) {
        logits = add_outer_product(logits, stage[quad * 2u][lane], queries[quad][0][strip]);
        logits = add_outer_product(logits, stage[quad * 2u][lane + LANES], queries[quad][1][strip]);
        logits = add_outer_product(logits, stage[quad * 2u + 1u][lane], queries[quad][2][strip]);
        logits = add_outer_product(logits, stage[quad * 2u + 1u][lane + LANES], queries[quad][3][strip]);
    }
    return logits;
}

fn store(row: u32, rows: u32, start: u32, quad: u32, value: vec4<f32>) {
    if (row < rows && quad * 4u < VALUE_HEAD) {
        output[start / 4u + quad] = vec4<Out>(value);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if (index >= params.workgroups) {
        return;
    }
    let job = job_of(index);
    let rows = params.tokens * GROUP;
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
    // Up to this key, no key is hidden from a row of the tile.
    var seen = end;
    if (CAUSAL) {
        seen = min(end, u32(position.x) + job.tile * ROWS / GROUP + 1u);
    }

    var maximum = vec4<f32>(LOWEST_LOGIT);
    var sum = vec4<f32>();
    var left = Block(); // a quad of the output for each of 4 rows, and another 8 quads further
    var right = Block();
    var next = Block();
    stage_queries(job, local);
    if (share.x < end) {
        next = fetch_keys(job, share.x, end, local);
    }
    for (var first = share.x; first < end; first += KEYS) {
        workgroupBarrier();
        store_keys(local, next);
        let values = fetch_values(job, first, end, local);
        workgroupBarrier();
        var logits = find_logits(strip, lane);
        if (MASK != NO_MASK || first + KEYS > seen || params.window > 0u || params.soft_cap > 0.0) {
            let key = first + lane * 4u;
            logits.b0 = masked_rows(logits.b0, job.batch, head, token, key, end);
            logits.b1 = masked_rows(logits.b1, job.batch, head, token, key + 1u, end);
            logits.b2 = masked_rows(logits.b2, job.batch, head, token, key + 2u, end);
            logits.b3 = masked_rows(logits.b3, job.batch, head, token, key + 3u, end);
        }
        weights[lane][strip] = max(max(logits.b0, logits.b1), max(logits.b2, logits.b3));
        workgroupBarrier();
        store_values(local, values);
        var highest = maximum;
        for (var i = 0u; i < LANES; i++) {
            highest = max(highest, weights[i][strip]);
        }
        let correction = exp(maximum - highest);
        maximum = highest;
        let w0 = weights_of(logits.b0, highest);
        let w1 = weights_of(logits.b1, highest);
        let w2 = weights_of(logits.b2, highest);
        let w3 = weights_of(logits.b3, highest);
        sum = fma(sum, correction, (w0 + w1) + (w2 + w3));
        left = Block(correction.x * left.b0, correction.y * left.b1, correction.z * left.b2, correction.w * left.b3);
        right = Block(correction.x * right.b0, correction.y * right.b1, correction.z * right.b2, correction.w * right.b3);
        workgroupBarrier();
        weights[lane * 4u][strip] = w0;
        weights[lane * 4u + 1u][strip] = w1;
        weights[lane * 4u + 2u][strip] = w2;
        weights[lane * 4u + 3u][strip] = w3;
        next = fetch_keys(job, min(first + KEYS, end - 1u), end, local);
        workgroupBarrier();
        for (var key = 0u; key < KEYS; key++) {
            let weight = weights[key][strip];
            left = add_outer_product(left, weight, stage[key][lane]);
            right = add_outer_product(right, weight, stage[key][lane + LANES]);
        }
    }

    workgroupBarrier();
    stage[lane][strip] = sum;
    workgroupBarrier();
    sum = vec4<f32>();
    for (var i = 0u; i < LANES; i++) {
        sum += stage[i][strip];
    }
    // A row without any key is zero.
    var factor = select(1.0 / sum, vec4<f32>(), sum == vec4<f32>());
    var start = job.batch * params.output.x + head * params.output.y + token * params.output.z;
    if (params.splits > 1u) {
        let line = ((job.batch * params.tokens + token) * params.key_heads * GROUP + head) * params.splits + job.split;
        factor = vec4<f32>(1.0);
        start = line * VALUE_HEAD;
        for (var r = 0u; r < 4u; r++) {
            if (lane == 0u && row[r] < rows) {
                stats[line[r]] = vec2<f32>(maximum[r], sum[r]);
            }
        }
    }
    store(row.x, rows, start.x, lane, factor.x * left.b0);
    store(row.y, rows, start.y, lane, factor.y * left.b1);
    store(row.z, rows, start.z, lane, factor.z * left.b2);
    store(row.w, rows, start.w, lane, factor.w * left.b3);
    store(row.x, rows, start.x, lane + LANES, factor.x * right.b0);
    store(row.y, rows, start.y, lane + LANES, factor.y * right.b1);
    store(row.z, rows, start.z, lane + LANES, factor.z * right.b2);
    store(row.w, rows, start.w, lane + LANES, factor.w * right.b3);
}
