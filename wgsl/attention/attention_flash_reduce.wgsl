// The reduction after attention with split keys: a workgroup merges the splits of one row.

// use lib/attention/merge_splits.wgsl

@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> output: array<Stored>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = workgroup.x + workgroup.y * workgroups.x;
    if (row >= params.rows) {
        return;
    }
    merge_row(row, local);
}
