enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity); // uniform within a subgroup, not a workgroup

// Matrices of 16 x 16 f16 that a subgroup multiplies at once, with sums in f32. Only this file and
// lib/matrix/subgroup_matrix_memory.wgsl use their WGSL types; lib/matrix/subgroup_matrix_tile.wgsl has the GEMM.
// A kernel includes this file first, as directives must come first.

alias F16Quad = vec4<f16>;
alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sums = subgroup_matrix_result<f32, 16, 16>;

fn to_f16(values: vec4<f32>) -> F16Quad { return F16Quad(values); }

// Two f16 at once. Each function rounds its result once.
alias Halves = vec2<f16>;

fn halves_of(bits: u32) -> Halves { return bitcast<Halves>(bits); }
fn bits_of(values: Halves) -> u32 { return bitcast<u32>(values); }
fn both_halves(value: f32) -> Halves { return Halves(f16(value)); }
fn less(a: Halves, b: f32) -> Halves { return a - Halves(f16(b)); }
fn product_of(a: Halves, b: Halves) -> Halves { return a * b; }
fn product_plus(a: Halves, b: Halves, c: Halves) -> Halves { return fma(a, b, c); }
fn negative(a: Halves) -> Halves { return -a; }

struct Place {
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

fn subgroup_of(place: Place) -> u32 { return place.subgroup; }
fn lane_of(place: Place) -> u32 { return place.lane; }
