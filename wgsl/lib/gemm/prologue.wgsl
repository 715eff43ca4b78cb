// The prologue of a skinny GEMM (RMS norm and int8 rounding of x), and the sum over the slices of
// lib/gemm/gemm_skinny.wgsl. The kernel supplies `x_quad(row, k)`: four values of a row, zeros outside of the matrix.
//
// With NORMED, x is RMS-normalized with the weights `gain` (an array of StoredQuad; `params.eps`). Sums
// are computed with x * gain and multiplied by 1 / rms at the end, so that nothing waits for the norm.
//
// With DYNAMIC_INT8, x is then quantized to int8 and back, with the scale and zero point of its row's min and
// max, at least `params.min_scale`; `find_row_qparams` finds them, by all invocations of a workgroup. Goes with
// lib/quotient.wgsl and lib/nan.wgsl.

// use lib/gemm/row_qparams.wgsl

override DYNAMIC_INT8: bool = false;

const SQUARED = ${SQUARED}; // NORMED && !DYNAMIC_INT8: the slices also add up squares of x
const SQUARES = select(1u, THREADS * ROWS, SQUARED);

alias Squares = array<f32, ROWS>;

var<workgroup> slice_squares: array<f32, SQUARES>;

var<workgroup> row_qparams: array<vec4<f32>, ROWS>; // scale, 1 / scale, zero and 1 / rms of a row
var<private> first_qparams_row: u32; // the row of the first one

// One invocation's statistics of a row: sum of squares, minimum, maximum, and 0.
fn row_stats(row: u32, thread: u32) -> vec4<f32> {
    var seen = vec4<f32>();
    for (var k = thread * 4u; k < params.gemm.k; k += THREADS * 4u) {
        let values = x_quad(row, k);
        var met = values;
        if (NORMED) {
            met *= vec4<f32>(gain[k / 4u]);
        }
        seen.x += dot(values, values);
        seen.y = min(seen.y, min(min(met.x, met.y), min(met.z, met.w)));
        seen.z = max(seen.z, max(max(met.x, met.y), max(met.z, met.w)));
    }
    return seen;
}

fn find_row_qparams(thread: u32, row: u32) {
    if (!DYNAMIC_INT8) {
        return;
    }
    first_qparams_row = row;
    for (var i = 0u; i < ROWS; i++) {
        slice_sums[i * THREADS + thread] = row_stats(row + i, thread);
    }
    for (var rest = THREADS / 2u; rest > 0u; rest /= 2u) {
        workgroupBarrier();
        if (thread < rest) {
            for (var i = thread; i < ROWS * THREADS; i += THREADS) {
                let one = slice_sums[i];
                let other = slice_sums[i + rest];
                slice_sums[i] = vec4<f32>(one.x + other.x, min(one.y, other.y), max(one.z, other.z), 0.0);
            }
        }
    }
    workgroupBarrier();
    if (thread < ROWS) {
        row_qparams[thread] = qparams_of(slice_sums[thread * THREADS]);
    }
    workgroupBarrier();
}

// Four values of x after the prologue.
fn prologue_quad(row: u32, k: u32) -> vec4<f32> {
    if (DYNAMIC_INT8) {
        let qparams = row_qparams[row - first_qparams_row];
        var values = x_quad(row, k);
        if (NORMED) {
            values *= qparams.w * vec4<f32>(gain[k / 4u]);
        }
        return fake_quantized(values, qparams);
    }
    if (NORMED) {
        return x_quad(row, k) * vec4<f32>(gain[k / 4u]);
    }
    return x_quad(row, k);
}

// Adds the squares of `count` elements of each row, from k on.
fn add_squares(squares: ptr<function, Squares>, row: u32, k: u32, count: u32) {
    if (SQUARED) {
        for (var i = 0u; i < ROWS; i++) {
            for (var at = k; at < k + count; at += 4u) {
                let values = x_quad(row + i, at);
                (*squares)[i] += dot(values, values);
            }
        }
    }
}

// Adds up the sums of the slices. The first LANES invocations then get the sums of their columns from
// `sums_of`. Called by all invocations of a workgroup, with `squares` the first time.
fn reduce_slices(thread: u32, sums: Sums, squares: Squares) {
    for (var row = 0u; row < ROWS; row++) {
        slice_sums[row * THREADS + thread] = sums[row];
        if (SQUARED) {
            slice_squares[row * THREADS + thread] = squares[row];
        }
    }
    for (var rest = THREADS / 2u; rest >= LANES; rest /= 2u) {
        workgroupBarrier();
        if (thread < rest) {
            for (var row = 0u; row < ROWS; row++) {
                slice_sums[row * THREADS + thread] += slice_sums[row * THREADS + thread + rest];
                if (SQUARED) {
                    slice_squares[row * THREADS + thread] += slice_squares[row * THREADS + thread + rest];
                }
            }
        }
    }
}

// Four columns of a row, after `reduce_slices`: 1 / rms is the same for all of them.
fn sums_of(thread: u32, row: u32) -> Quad {
    let sums = slice_sums[row * THREADS + thread];
    if (SQUARED) {
        return sums * inverseSqrt(slice_squares[row * THREADS + thread] / f32(params.gemm.k) + params.eps);
    }
    return sums;
}
