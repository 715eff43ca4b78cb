// attention_flash_reduce.wgsl whose spare workgroups read the weights of later kernels: see lib/ahead/read_six.wgsl.

// use lib/attention/merge_splits.wgsl
// use lib/ahead/read_six.wgsl

@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> output: array<Stored>;
@group(0) @binding(3) var<storage, read> ahead_0: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> ahead_1: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> ahead_2: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> ahead_3: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> ahead_4: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read> ahead_5: array<vec4<u32>>;
@group(0) @binding(9) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = workgroup.x + workgroup.y * workgroups.x;
    if (row >= params.rows) {
        if (read_ahead(row - params.rows, workgroups.x - params.rows, local, THREADS)) {
            output[0] = Stored();
        }
        return;
    }
    merge_row(row, local);
}
