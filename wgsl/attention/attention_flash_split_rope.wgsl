// Attention of lib/attention/attention_flash_split.wgsl with rotary embedding: new queries, keys and values are one after
// the other in one buffer, and queries and keys are rotated by the angles of their tokens as they are read.

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

@group(0) @binding(0) var<storage, read> new_values: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> cosines: array<Stored>;
@group(0) @binding(2) var<storage, read> sines: array<Stored>;
@group(0) @binding(3) var<storage, ${CACHE}> k: array<CacheUnit>;
@group(0) @binding(4) var<storage, ${CACHE}> v: array<CacheUnit>;
@group(0) @binding(5) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(8) var<uniform> position: vec4<i32>;
@group(0) @binding(9) var<uniform> start: vec4<i32>; // where the first token is in the tables
@group(0) @binding(10) var<uniform> params: Params;

fn cosines_at(at: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(f32(cosines[at.x]), f32(cosines[at.y]), f32(cosines[at.z]), f32(cosines[at.w]));
}

fn sines_at(at: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(f32(sines[at.x]), f32(sines[at.y]), f32(sines[at.z]), f32(sines[at.w]));
}

// Four elements of the head that begins at quad `first`.
fn rotated_quad(first: u32, quad: u32, token: u32, head: u32) -> vec4<f32> {
    let value = new_values[first + quad];
    if (quad * 4u >= params.rotated * 2u) {
        return value;
    }
    let angles = (token + u32(start.x)) * params.angle_row + head * params.angle_head;
    if (ROTATE_HALF) {
        let at = angles + quad * 4u + vec4<u32>(0u, 1u, 2u, 3u);
        let is_first = quad * 4u < params.rotated;
        let partner = new_values[first + select(quad - params.rotated / 4u, quad + params.rotated / 4u, is_first)];
        return value * cosines_at(at) + select(partner, -partner, is_first) * sines_at(at);
    }
    let at = angles + quad * 2u + vec4<u32>(0u, 0u, 1u, 1u);
    return value * cosines_at(at) + vec4<f32>(-value.y, value.x, -value.w, value.z) * sines_at(at);
}

fn q_quad(job: Job, row: u32, quad: u32) -> vec4<f32> {
    return rotated_quad(query_start(job, row) / 4u, quad, row / GROUP, head_of(job, row));
}

fn new_key(job: Job, key: u32, quad: u32) -> vec4<Stored> {
    let first = (params.keys_begin + new_start(job, key)) / 4u;
    return vec4<Stored>(rotated_quad(first, quad, key - u32(position.x), job.key_head));
}

fn new_value(job: Job, key: u32, quad: u32) -> vec4<Stored> {
    return vec4<Stored>(new_values[(params.values_begin + new_start(job, key)) / 4u + quad]);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    attend(workgroup.x + workgroup.y * workgroups.x, local);
}
