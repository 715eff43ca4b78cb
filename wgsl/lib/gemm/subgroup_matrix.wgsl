enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity); // uniform within a subgroup, not a workgroup

// Matrices of 16 x 16 f16 that a subgroup multiplies at once, with sums in f32. Only this file and
// lib/gemm/subgroup_matrix_memory.wgsl use their WGSL types; lib/gemm/subgroup_matrix_tile.wgsl has the GEMM.
// A kernel includes this file first, as directives must come first.

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
