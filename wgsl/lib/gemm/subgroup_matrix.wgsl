enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity); // by subgroup it is uniform, not by workgroup

// Matrices of 16 x 16 half floats that a subgroup multiplies at once, with sums in f32. All that is
// said of them to WGSL is said here; lib/gemm/subgroup_matrix_tile.wgsl makes a product of them. Comes first in a
// kernel, for the lines above.

alias F16Quad = vec4<f16>;
alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sums = subgroup_matrix_result<f32, 16, 16>;

fn to_f16(values: vec4<f32>) -> F16Quad { return F16Quad(values); }

struct Place {
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

fn subgroup_of(place: Place) -> u32 { return place.subgroup; }
fn lane_of(place: Place) -> u32 { return place.lane; }
