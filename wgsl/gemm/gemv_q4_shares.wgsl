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

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
    eps: f32,
    min_scale: f32, // of a row that is rounded
    a: f32, // of the formula
    b: f32,
    c: f32,
}

@group(0) @binding(0) var<storage, read> shares: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(5) var<storage, read> addend: array<Stored>;
@group(0) @binding(6) var<storage, read> residual: array<Stored>;
@group(0) @binding(7) var<storage, read_write> output: array<Out>;
@group(0) @binding(8) var<uniform> params: Params;

fn fetch_units(matrix: u32, at: u32, scale: u32) -> Units {
    return Units(
        weights[at], weights[at + UNITS], weights[at + 2u * UNITS], weights[at + 3u * UNITS],
        vec4<f32>(scales[scale]),
    );
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let first = (group.x + group.y * groups.x) * COLUMNS;
    if (first >= params.gemm.n) {
        return;
    }
    multiply_row(thread, 0u, params.scale_stride, min(first + lane_of(thread) * 4u, params.gemm.n - 4u));
    let own = first + thread;
    if (thread < COLUMNS && own < params.gemm.n) {
        let added = Number(addend[own * params.gemm.addend_column]);
        output[own] = Out(apply_epilogue(params.gemm.alpha * sum_of(0u, thread) + params.gemm.beta * added, own));
    }
}
