// The minima and maxima of the parts of long blocks, which choose_qparams.wgsl then reads in place of the
// blocks. X is the stored type: f32 or f16.

// use lib/quant/min_max.wgsl

struct Params {
    blocks: Blocks,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<${X}>>;
@group(0) @binding(1) var<storage, read_write> output: array<vec2<f32>>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let found = block_min_max(place);
    if (place.lane == 0u && place.row < params.blocks.count * params.blocks.parts) {
        output[place.row] = found;
    }
}
