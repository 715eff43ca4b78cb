// attention_flash_split_rope.wgsl whose spare workgroups read the weights of later kernels: see lib/ahead/read_two.wgsl.

// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/attention_flash_split.wgsl
// use lib/attention/attention_flash_split_job.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/keys_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/values_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/new_${NEW}.wgsl

// use lib/attention/rotated_heads.wgsl
// use lib/ahead/read_two.wgsl

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
@group(0) @binding(10) var<storage, read> ahead_0: array<vec4<u32>>;
@group(0) @binding(11) var<storage, read> ahead_1: array<vec4<u32>>;
@group(0) @binding(12) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if (index >= params.workgroups) {
        if (read_ahead(index - params.workgroups, workgroups.x - params.workgroups, local, THREADS)) {
            output[0] = Out();
        }
        return;
    }
    attend(index, local);
}
