// A scale and a zero for each block of a tensor, so that its values fit a range of integers.
// A workgroup has 4 blocks or more, so that it can write zeros that are bytes as whole words.
// X, SCALE and ZERO are the stored types.

// use lib/quads.wgsl
// use lib/quant/min_max.wgsl
// use lib/quant/qparams.wgsl

@group(0) @binding(0) var<storage, read> x: array<vec4<${X}>>;
@group(0) @binding(1) var<storage, read_write> scales: array<vec4<${SCALE}>>;
@group(0) @binding(2) var<storage, read_write> zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<uniform> params: Params;

var<workgroup> block_scales: array<f32, THREADS>;
var<workgroup> block_zero_points: array<i32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let range = range_with_zero(block_min_max(place));
    let scale = clamped_scale(range);
    if (place.lane == 0u) {
        block_scales[place.local] = scale;
        block_zero_points[place.local] = zero_point_of(range, scale);
    }
    workgroupBarrier();
    let first = thread * 4u;
    let quad = (workgroup.x + workgroup.y * workgroups.x) * (ROWS / 4u) + thread;
    if (first < ROWS && quad * 4u < params.blocks.count) {
        scales[quad] = vec4<${SCALE}>(vec4<f32>(
            block_scales[first], block_scales[first + 1u], block_scales[first + 2u], block_scales[first + 3u]
        ));
        zeros[quad] = store_i32_as_${ZERO}(vec4<i32>(
            block_zero_points[first], block_zero_points[first + 1u], block_zero_points[first + 2u], block_zero_points[first + 3u]
        ));
    }
}
