// Attention of rows that belong to several sequences, each to the cache of its own slot: see
// lib/attention/attention_flash_split.wgsl. A row is a batch of one query; its keys are in the cache already.

// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/attention_flash_split.wgsl
// use lib/attention/query.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/keys_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/values_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/new_${NEW}.wgsl

@group(0) @binding(0) var<storage, read> q: array<vec4<Stored>>;
@group(0) @binding(1) var<storage, ${CACHE}> k: array<CacheUnit>;
@group(0) @binding(2) var<storage, ${CACHE}> v: array<CacheUnit>;
@group(0) @binding(3) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(4) var<storage, read_write> output: array<Out>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read> places: array<vec4<i32>>;
@group(0) @binding(7) var<uniform> params: Params;

var<private> position: vec4<i32>; // of the workgroup's query

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
    var job = job_of(index);
    // Barriers follow: what decides about them has to come from here, not from a private variable.
    let place = places[job.batch];
    position = place;
    job.cache = u32(max(place.y, 0));
    let keys = select(0u, u32(place.x) + 1u, place.y >= 0);
    let begin = select(0u, keys - params.window, params.window > 0u && keys > params.window);
    attend_to(job, begin + split_range(job.split, keys - begin, 1u, MIN_SPLIT_KEYS), local);
}
