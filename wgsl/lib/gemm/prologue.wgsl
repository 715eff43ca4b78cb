// The prologue of a skinny GEMM (RMS norm and int8 rounding of x), and the sum over the slices of
// lib/gemm/gemm_skinny.wgsl. The kernel supplies `x_quad(row, k)`: four values of a row, zeros outside of the matrix.
//
// With NORMED, x is RMS-normalized with the weights `gain` (an array of StoredQuad; `params.eps`). Sums
// are computed with x * gain and multiplied by 1 / rms at the end, so that nothing waits for the norm.
//
// With ROUNDED, x is then rounded to int8, with the scale and the zero that the extremes of its row give
// (`params.least` is the smallest scale). `find_roundings` finds them, by all invocations of a workgroup. Goes with lib/quotient.wgsl and lib/nan.wgsl.

override NORMED: bool = false;
override ROUNDED: bool = false;

const SQUARED = ${SQUARED}; // NORMED && !ROUNDED: the slices also add up squares of x
const SQUARES = select(1u, THREADS * ROWS, SQUARED);

alias Squares = array<f32, ROWS>;

var<workgroup> slice_squares: array<f32, SQUARES>;

var<workgroup> roundings: array<vec4<f32>, ROWS>; // scale, 1 / scale, zero and 1 / rms of a row
var<private> first_rounded: u32; // the row of the first one

// The share of one invocation in a row: sum of squares, smallest and largest value, and zero.
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

fn rounding_of(seen: vec4<f32>) -> vec4<f32> {
    var rms = 1.0;
    if (NORMED) {
        rms = inverseSqrt(seen.x / f32(params.gemm.k) + params.eps);
    }
    let lowest = seen.y * rms;
    var scale = max(exact_quotient_f32(seen.z * rms - lowest, 255.0), params.least);
    if (is_nan_f32(seen.x)) { // min and max may drop a NaN
        scale = seen.x;
    }
    let zero = clamp(-128.0 - round(exact_quotient_f32(lowest, scale)), -128.0, 127.0);
    return vec4<f32>(scale, exact_quotient_f32(1.0, scale), zero, rms);
}

fn find_roundings(thread: u32, row: u32) {
    if (!ROUNDED) {
        return;
    }
    first_rounded = row;
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
        roundings[thread] = rounding_of(slice_sums[thread * THREADS]);
    }
    workgroupBarrier();
}

fn rounded(values: vec4<f32>, rounding: vec4<f32>) -> vec4<f32> {
    let code = clamp(round(values * rounding.y) + rounding.z, vec4<f32>(-128.0), vec4<f32>(127.0));
    return (code - rounding.z) * rounding.x;
}

// Four values of x after the prologue.
fn prologue_quad(row: u32, k: u32) -> vec4<f32> {
    if (ROUNDED) {
        let rounding = roundings[row - first_rounded];
        var values = x_quad(row, k);
        if (NORMED) {
            values *= rounding.w * vec4<f32>(gain[k / 4u]);
        }
        return rounded(values, rounding);
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
fn fold_slices(thread: u32, sums: Sums, squares: Squares) {
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

// Four columns of a row, after `fold_slices`: 1 / rms is the same for all of them.
fn sums_of(thread: u32, row: u32) -> Quad {
    let sums = slice_sums[row * THREADS + thread];
    if (SQUARED) {
        return sums * inverseSqrt(slice_squares[row * THREADS + thread] / f32(params.gemm.k) + params.eps);
    }
    return sums;
}
