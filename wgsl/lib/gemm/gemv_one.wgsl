// The params and the entry point of a GEMV with one matrix, see lib/gemm/gemv_q4.wgsl.
//
// The kernel declares `weights`, `scales`, `addend`, `residual`, `output` and `params`.

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
