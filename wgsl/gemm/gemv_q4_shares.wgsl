// gemv_q4.wgsl of a row that attention left in shares: see lib/gemm/gemv_shares_row.wgsl.
// output = f(x, y), x being alpha * sums + beta * addend, and y the residual.

// use lib/quads.wgsl
// use lib/math.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/formula_epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/gemv_q4.wgsl
// use lib/gemm/gemv_shares_row.wgsl
// use lib/gemm/gemv_one.wgsl

@group(0) @binding(0) var<storage, read> shares: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(5) var<storage, read> addend: array<Stored>;
@group(0) @binding(6) var<storage, read> residual: array<Stored>;
@group(0) @binding(7) var<storage, read_write> output: array<Out>;
@group(0) @binding(8) var<uniform> params: Params;
