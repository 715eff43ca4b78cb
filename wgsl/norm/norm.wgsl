// Root mean square normalization, row by row: output = x / sqrt(mean(x * x) + eps) * weight,
// or without a weight.

// use lib/reduce/rms_norm.wgsl

override HAS_WEIGHT: bool;

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<Stored>;
@group(0) @binding(2) var<storage, read_write> output: array<Stored>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let share = share_of(place_of(thread, workgroup, workgroups));
    for (var i = share.first; i < share.end; i += LANES) {
        if (HAS_WEIGHT) {
            output[share.base + i] = Stored(normalized(share, i));
        } else {
            output[share.base + i] = Stored(unscaled(share, i));
        }
    }
}
