enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity); // uniform within a subgroup, not a workgroup

// Matrices of 16 x 16 f16 that a subgroup multiplies at once, with sums in f32. Only lib/matrix/matrices_whole.wgsl and
// lib/matrix/matrices_parts.wgsl use WGSL's types; lib/matrix/subgroup_matrix_tile.wgsl has the GEMM.
// A kernel includes this file first, as directives must come first.

alias F16Quad = vec4<f16>;

fn to_f16(values: vec4<f32>) -> F16Quad { return F16Quad(values); }

// Two f16 at once. Each function rounds its result once.
alias F16Pair = vec2<f16>;

fn f16_pair_of(bits: u32) -> F16Pair { return bitcast<F16Pair>(bits); }
fn f16_pair_bits(values: F16Pair) -> u32 { return bitcast<u32>(values); }
fn f16_splat(value: f32) -> F16Pair { return F16Pair(f16(value)); }
fn f16_subtract(a: F16Pair, b: f32) -> F16Pair { return a - F16Pair(f16(b)); }
fn f16_multiply(a: F16Pair, b: F16Pair) -> F16Pair { return a * b; }
fn f16_fma(a: F16Pair, b: F16Pair, c: F16Pair) -> F16Pair { return fma(a, b, c); }
fn f16_negate(a: F16Pair) -> F16Pair { return -a; }

struct Place {
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

fn subgroup_of(place: Place) -> u32 { return place.subgroup; }
fn lane_of(place: Place) -> u32 { return place.lane; }
