// Attention of lib/attention/attention_flash_split.wgsl whose queries and keys are made as they are read: new queries,
// keys and values are one after the other in one buffer, and get biases or RMS norms, then rotary embedding.

// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/attention_flash_split.wgsl
// use lib/attention/attention_flash_split_job.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/keys_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/values_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/new_${NEW}.wgsl

// Pairs lie half of the rotated elements apart, with an angle per element; otherwise pairs are
// neighbours.
override ROTATE_HALF: bool;
override ROTATED: bool;
override HEAD_PROLOGUE: u32; // one of the following
const BIASED = 1u; // queries, keys and values get biases; `mask` has those of values
const NORMED_HEADS = 2u; // queries and keys are normalized head by head
const NORMED_TOKENS = 3u; // all heads of the only token at once
override EPS: f32; // of the norms

@group(0) @binding(0) var<storage, read> new_values: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> cosines: array<Stored>;
@group(0) @binding(2) var<storage, read> sines: array<Stored>;
@group(0) @binding(3) var<storage, read> query_change: array<vec4<Stored>>; // biases or gains
@group(0) @binding(4) var<storage, read> key_change: array<vec4<Stored>>;
@group(0) @binding(5) var<storage, ${CACHE}> k: array<CacheUnit>;
@group(0) @binding(6) var<storage, ${CACHE}> v: array<CacheUnit>;
@group(0) @binding(7) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(8) var<storage, read_write> output: array<Out>;
@group(0) @binding(9) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(10) var<uniform> position: vec4<i32>;
@group(0) @binding(11) var<uniform> start: vec4<i32>; // where the first token is in the tables
@group(0) @binding(12) var<uniform> params: Params;

// One head of queries or keys, before it is rotated.
struct Head {
    first: u32, // its first quad
    change: u32, // the first quad of its biases or gains
    scale: f32, // of the norm
    is_key: bool,
}

const HEAD_LANES = 32u; // invocations that sum the squares of a head
const HEAD_PARTS = 4u; // of such a sum
const MOST_TOKENS = 32u; // FEW_ROWS of attention_kernels.py

var<workgroup> token_scales: vec2<f32>; // of the norms of all queries and of all keys
var<workgroup> head_squares: array<f32, (ROWS + MOST_TOKENS) * HEAD_PARTS>; // of the rows' queries, then of new keys

fn inverse_rms(squares: f32, count: u32) -> f32 {
    return inverseSqrt(squares / f32(count) + EPS);
}

// Sums squares of the only token's queries and keys, by all invocations of a workgroup.
fn find_token_scales(local: u32) {
    if (HEAD_PROLOGUE != NORMED_TOKENS) {
        return;
    }
    let keys = params.key_heads * QUADS;
    let queries_end = keys * GROUP;
    var squares = vec2<f32>();
    for (var i = local; i < queries_end + keys; i += THREADS) {
        let value = new_values[i];
        let square = dot(value, value);
        squares += select(vec2<f32>(0.0, square), vec2<f32>(square, 0.0), i < queries_end);
    }
    partials[local] = vec4<f32>(squares, 0.0, 0.0);
    for (var rest = THREADS / 2u; rest > 0u; rest /= 2u) {
        workgroupBarrier();
        if (local < rest) {
            partials[local] += partials[local + rest];
        }
    }
    if (local == 0u) {
        let every = partials[0];
        token_scales = vec2<f32>(inverse_rms(every.x, queries_end * 4u), inverse_rms(every.y, keys * 4u));
    }
    workgroupBarrier();
}

// Sums squares of each query and new key of the workgroup, by all of its invocations.
fn find_head_squares(job: Job, local: u32) {
    if (HEAD_PROLOGUE != NORMED_HEADS) {
        return;
    }
    let heads = ROWS + params.tokens;
    let lane = local % HEAD_LANES;
    for (var first = 0u; first < heads; first += THREADS / HEAD_LANES) {
        let head = first + local / HEAD_LANES;
        let row = min(job.tile * ROWS + head, params.tokens * GROUP - 1u);
        let token = min(max(head, ROWS) - ROWS, params.tokens - 1u);
        let begin = select(params.keys_begin + new_start(job, u32(position.x) + token), query_start(job, row), head < ROWS) / 4u;
        var squares = 0.0;
        for (var i = lane; i < QUADS; i += HEAD_LANES) {
            squares += dot(new_values[begin + i], new_values[begin + i]);
        }
        partials[local] = vec4<f32>(squares);
        workgroupBarrier();
        if (lane < HEAD_PARTS && head < heads) {
            var part = 0.0;
            for (var i = 0u; i < HEAD_LANES; i += HEAD_PARTS) {
                part += partials[local + i].x;
            }
            head_squares[head * HEAD_PARTS + lane] = part;
        }
        workgroupBarrier();
    }
}

// `place` is that of the head in `head_squares`.
fn head_at(first: u32, head: u32, is_key: bool, place: u32) -> Head {
    var result = Head(first, head * QUADS, 1.0, is_key);
    if (HEAD_PROLOGUE == NORMED_HEADS) {
        let at = place * HEAD_PARTS;
        let squares = (head_squares[at] + head_squares[at + 1u]) + (head_squares[at + 2u] + head_squares[at + 3u]);
        result.change = 0u;
        result.scale = inverse_rms(squares, HEAD);
    }
    if (HEAD_PROLOGUE == NORMED_TOKENS) {
        result.scale = select(token_scales.x, token_scales.y, is_key);
    }
    return result;
}

// A quad with its bias, or normalized.
fn head_prologue_quad(head: Head, quad: u32) -> vec4<f32> {
    let value = new_values[head.first + quad];
    if (HEAD_PROLOGUE == 0u) {
        return value;
    }
    var change: vec4<f32>;
    if (head.is_key) {
        change = vec4<f32>(key_change[head.change + quad]);
    } else {
        change = vec4<f32>(query_change[head.change + quad]);
    }
    return select(value * head.scale * change, value + change, HEAD_PROLOGUE == BIASED);
}

fn cosines_at(at: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(f32(cosines[at.x]), f32(cosines[at.y]), f32(cosines[at.z]), f32(cosines[at.w]));
}

fn sines_at(at: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(f32(sines[at.x]), f32(sines[at.y]), f32(sines[at.z]), f32(sines[at.w]));
}

// Four elements of a head; `index` is its number among the heads that the tables may tell apart.
fn rotated_quad(head: Head, quad: u32, token: u32, index: u32) -> vec4<f32> {
    let value = head_prologue_quad(head, quad);
    if (!ROTATED || quad * 4u >= params.rotated * 2u) {
        return value;
    }
    let angles = (token + u32(start.x)) * params.angle_row + index * params.angle_head;
    if (ROTATE_HALF) {
        let at = angles + quad * 4u + vec4<u32>(0u, 1u, 2u, 3u);
        let is_first = quad * 4u < params.rotated;
        let half = params.rotated / 4u;
        let partner = head_prologue_quad(head, select(quad - half, quad + half, is_first));
        return value * cosines_at(at) + select(partner, -partner, is_first) * sines_at(at);
    }
    let at = angles + quad * 2u + vec4<u32>(0u, 0u, 1u, 1u);
    return value * cosines_at(at) + vec4<f32>(-value.y, value.x, -value.w, value.z) * sines_at(at);
}

fn q_quad(job: Job, row: u32, quad: u32) -> vec4<f32> {
    let index = head_of(job, row);
    let head = head_at(query_start(job, row) / 4u, index, false, row - job.tile * ROWS);
    return rotated_quad(head, quad, row / GROUP, index);
}

fn new_key(job: Job, key: u32, quad: u32) -> vec4<Stored> {
    let token = key - u32(position.x);
    let head = head_at((params.keys_begin + new_start(job, key)) / 4u, job.key_head, true, ROWS + token);
    return vec4<Stored>(rotated_quad(head, quad, token, job.key_head));
}

fn new_value(job: Job, key: u32, quad: u32) -> vec4<Stored> {
    var value = new_values[(params.values_begin + new_start(job, key)) / 4u + quad];
    if (HEAD_PROLOGUE == BIASED) {
        value += load_${MASK_TYPE}_as_f32(mask[job.key_head * VALUE_QUADS + quad]);
    }
    return vec4<Stored>(value);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    find_token_scales(local);
    find_head_squares(job_of(index), local);
    attend(index, local);
}
