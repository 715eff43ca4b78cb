// The row of a GEMV as a sum that every workgroup computes: residual + x / rms(x) * post_gain. Goes with
// lib/gemm/gemv_q4.wgsl; the kernel declares `x`, `residual` and `sum` (arrays of quads), `post_gain` and
// `params.post_eps`.

var<private> inverse_rms: f32; // of x

fn row_quad(quad: u32) -> vec4<f32> {
    return residual[quad] + x[quad] * inverse_rms * post_gain[quad];
}

// By all invocations of a workgroup, before the first `row_quad`.
fn prepare_row(thread: u32) {
    var squares = 0.0;
    for (var quad = thread; quad < UNITS * X_QUADS; quad += THREADS) {
        squares += dot(x[quad], x[quad]);
    }
    slice_scalars[thread] = squares;
    workgroupBarrier();
    reduce_scalars(thread);
    workgroupBarrier();
    inverse_rms = inverseSqrt(sum_of_scalars() / f32(params.gemm.k) + params.post_eps);
    workgroupBarrier();
}

// Later calls read the sum, too: one workgroup writes it, after `prepare_row`.
fn write_row(thread: u32) {
    for (var quad = thread; quad < UNITS * X_QUADS; quad += THREADS) {
        sum[quad] = row_quad(quad);
    }
}
