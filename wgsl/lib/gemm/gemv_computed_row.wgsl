// The row of a GEMV as a norm that every workgroup computes: x / rms(x) * row_gain, or with ROW_CENTERED a layer norm;
// with ROW_ADDED plus a residual. One workgroup also writes it, for calls that read it later. Goes with
// lib/gemm/gemv_q4.wgsl; the kernel declares `x`, `residual` and `row` (arrays of quads), `row_gain` and `params.row_eps`.

override ROW_CENTERED: bool;
override ROW_ADDED: bool;

var<private> row_mean: f32;
var<private> row_scale: f32;

fn row_quad(quad: u32) -> vec4<f32> {
    let values = (x[quad] - row_mean) * row_scale * row_gain[quad];
    if (ROW_ADDED) {
        return residual[quad] + values;
    }
    return values;
}

// The sum of one number of each invocation, in all of them.
fn total_of(thread: u32, number: f32) -> f32 {
    slice_scalars[thread] = number;
    workgroupBarrier();
    reduce_scalars(thread);
    workgroupBarrier();
    let total = sum_of_scalars();
    workgroupBarrier();
    return total;
}

// By all invocations of a workgroup, before the first `row_quad`. The variance is summed around the mean, as in
// norm_centered.wgsl.
fn prepare_row(thread: u32) {
    if (ROW_CENTERED) {
        var values = 0.0;
        for (var quad = thread; quad < UNITS * X_QUADS; quad += THREADS) {
            values += dot(x[quad], vec4<f32>(1.0));
        }
        row_mean = total_of(thread, values) / f32(params.gemm.k);
    }
    var squares = 0.0;
    for (var quad = thread; quad < UNITS * X_QUADS; quad += THREADS) {
        let values = x[quad] - row_mean;
        squares += dot(values, values);
    }
    row_scale = inverseSqrt(total_of(thread, squares) / f32(params.gemm.k) + params.row_eps);
}

fn write_row(thread: u32) {
    for (var quad = thread; quad < UNITS * X_QUADS; quad += THREADS) {
        row[quad] = row_quad(quad);
    }
}
