// choose_qparams.wgsl for software adapters: an invocation has four blocks to itself, so that nothing
// is shared and no barrier is needed. LANES is 1.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/quant/min_max.wgsl
// use lib/quant/qparams.wgsl

@group(0) @binding(0) var<storage, read> x: array<vec4<${X}>>;
@group(0) @binding(1) var<storage, read_write> scales: array<vec4<${SCALE}>>;
@group(0) @binding(2) var<storage, read_write> zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad * 4u >= params.blocks.count) {
        return;
    }
    var scale = vec4<f32>();
    var zero = vec4<i32>();
    for (var i = 0u; i < 4u; i++) {
        let block = min(quad * 4u + i, params.blocks.count - 1u);
        let range = range_with_zero(lane_min_max(Place(block, 0u, 0u)));
        scale[i] = clamped_scale(range);
        zero[i] = zero_point_of(range, scale[i]);
    }
    scales[quad] = vec4<${SCALE}>(scale);
    zeros[quad] = store_i32_as_${ZERO}(zero);
}
