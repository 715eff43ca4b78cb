// Attention as lib/attention/attention_flash_split.wgsl has it, of queries, keys and values as products leave them: one
// after the other in one buffer, queries and keys yet to be turned by the angles of their tokens.

// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/attention_flash_split.wgsl

// Pairs lie half of the turned elements apart, and have angles of their own; otherwise neighbours are
// pairs.
override HALF: bool;

@group(0) @binding(0) var<storage, read> fresh: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> cosines: array<Stored>;
@group(0) @binding(2) var<storage, read> sines: array<Stored>;
@group(0) @binding(3) var<storage, ${CACHE}> k: array<vec4<Stored>>;
@group(0) @binding(4) var<storage, ${CACHE}> v: array<vec4<Stored>>;
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
fn turned_quad(first: u32, quad: u32, token: u32, head: u32) -> vec4<f32> {
    let value = fresh[first + quad];
    if (quad * 4u >= params.turned * 2u) {
        return value;
    }
    let angles = (token + u32(start.x)) * params.angle_row + head * params.angle_head;
    if (HALF) {
        let at = angles + quad * 4u + vec4<u32>(0u, 1u, 2u, 3u);
        let is_first = quad * 4u < params.turned;
        let partner = fresh[first + select(quad - params.turned / 4u, quad + params.turned / 4u, is_first)];
        return value * cosines_at(at) + select(partner, -partner, is_first) * sines_at(at);
    }
    let at = angles + quad * 2u + vec4<u32>(0u, 0u, 1u, 1u);
    return value * cosines_at(at) + vec4<f32>(-value.y, value.x, -value.w, value.z) * sines_at(at);
}

fn q_quad(job: Job, row: u32, quad: u32) -> vec4<f32> {
    return turned_quad(query_start(job, row) / 4u, quad, row / GROUP, head_of(job, row));
}

fn fresh_key(job: Job, key: u32, quad: u32) -> vec4<Stored> {
    let first = (params.keys_begin + fresh_start(job, key)) / 4u;
    return vec4<Stored>(turned_quad(first, quad, key - u32(position.x), job.key_head));
}

fn fresh_value(job: Job, key: u32, quad: u32) -> vec4<Stored> {
    return vec4<Stored>(fresh[(params.values_begin + fresh_start(job, key)) / 4u + quad]);
}

@compute @workgroup_size(SIZE)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    attend(workgroup.x + workgroup.y * workgroups.x, local);
}
