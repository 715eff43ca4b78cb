// The row of a GEMV as a sum that every workgroup computes: residual + x / rms(x) * row_gain. One workgroup also writes
// it, for calls that read it later. Goes with lib/gemm/gemv_q4.wgsl; the kernel declares `x`, `residual`, `row` and
// `row_gain` (arrays of quads) and `params.row_eps`, and sets `writes_row`.

// use lib/gemm/gemv_floats.wgsl

var<private> writes_row: bool; // whether this workgroup does
var<private> row_scale: f32;

fn write_row(quad: u32, values: vec4<f32>) {
    if (writes_row) {
        row[quad] = values;
    }
}

// A quad after the first chunk; a workgroup loads each once.
fn row_quad(quad: u32) -> vec4<f32> {
    let values = residual[quad] + x[quad] * row_scale * row_gain[quad];
    write_row(quad, values);
    return values;
}

// The first chunk, by all invocations of a workgroup, before every `row_quad`. All that the chunk is made of is read
// before anything waits.
fn first_x(thread: u32) -> Run {
    var run = Run();
    var row_gains = Run();
    var residuals = Run();
    var squares = 0.0;
    for (var i = 0u; i < X_LOADS; i++) {
        let quad = i * THREADS + thread;
        if (quad < min(STAGED, UNITS * X_QUADS)) {
            run[i] = x[quad];
            row_gains[i] = row_gain[quad];
            residuals[i] = residual[quad];
            squares += dot(run[i], run[i]);
        }
    }
    for (var quad = STAGED + thread; quad < UNITS * X_QUADS; quad += THREADS) {
        squares += dot(x[quad], x[quad]);
    }
    row_scale = inverseSqrt(total_of(thread, squares) / f32(params.gemm.k) + params.row_eps);
    for (var i = 0u; i < X_LOADS; i++) {
        run[i] = residuals[i] + run[i] * row_scale * row_gains[i];
        if (i * THREADS + thread < min(STAGED, UNITS * X_QUADS)) {
            write_row(i * THREADS + thread, run[i]);
        }
    }
    return run;
}
