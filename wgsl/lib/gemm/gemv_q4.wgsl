// GEMV of one row of x with quantized weights. It takes microseconds, so the time depends on having many
// reads in flight and few barriers.
//
// A workgroup has COLUMNS columns. SLICES neighbouring invocations share four of them and walk along k:
// in each turn an invocation takes one unit (a vec4<u32>, all values of which share a scale) of each of
// its four columns, and prefetches those of the next turn. x is in shared memory.
//
// Goes with lib/gemm/gemm.wgsl, lib/gemm/q4_weights.wgsl and lib/gemm/q4_units.wgsl, and with one of
// lib/gemm/gemv_row_floats.wgsl, lib/gemm/gemv_row_int8.wgsl and lib/gemm/gemv_computed_row.wgsl, which say what x is:
//     fn multiply_row(thread: u32, matrix: u32, stride: u32, column: u32)    by all invocations of a workgroup
//     fn reduce_row(thread: u32)                                             its part of `reduce_slices`
//     fn row_factor() -> f32                                                 what sums are multiplied by at the end
// The kernel declares `gain` (an array of quads), `params.gemm`, `params.eps` and
//     fn fetch_units(matrix: u32, at: u32, scale: u32) -> Units    at `at`, and UNITS from one to the next

const THREADS = ${THREADS}u;
const SLICES = ${SLICES}u; // a multiple of PARTIALS
const LANES = THREADS / SLICES;
const COLUMNS = LANES * 4u;
const UNITS = ${UNITS}u; // of a column
const TURNS = (UNITS + SLICES - 1u) / SLICES;
const MATRICES = ${MATRICES}u; // multiplied at once
const PARTIALS = 8u; // parts of a column's sum after the slices were added up

// A unit of each of four columns, and their scales.
struct Units {
    c0: vec4<u32>,
    c1: vec4<u32>,
    c2: vec4<u32>,
    c3: vec4<u32>,
    scale: vec4<f32>,
}

var<workgroup> slice_sums: array<Quad, MATRICES * THREADS>;
var<workgroup> partial_sums: array<Quad, MATRICES * LANES * PARTIALS>;

fn slice_of(thread: u32) -> u32 { return thread % SLICES; }
fn lane_of(thread: u32) -> u32 { return thread / SLICES; }

// Units past the end read the last one, and add nothing.
fn unit_of(turn: u32, thread: u32) -> u32 { return min(turn * SLICES + slice_of(thread), UNITS - 1u); }

// A unit of four columns; `stride` leads from one group's scales to the next one's.
fn units_at(matrix: u32, stride: u32, column: u32, unit: u32) -> Units {
    let scale = (unit * values_per_unit() / GROUP_SIZE * stride + column) / 4u;
    return fetch_units(matrix, column * UNITS + unit, scale);
}

// Adds up the sums of the slices.
fn reduce_slices(thread: u32) {
    workgroupBarrier();
    for (var i = thread; i < MATRICES * LANES * PARTIALS; i += THREADS) {
        var sums = Quad();
        for (var z = 0u; z < SLICES / PARTIALS; z++) {
            sums += slice_sums[i / PARTIALS * SLICES + i % PARTIALS + z * PARTIALS];
        }
        partial_sums[i] = sums;
    }
    reduce_row(thread);
    workgroupBarrier();
}

// The workgroup's column-th column.
fn sum_of(matrix: u32, column: u32) -> f32 {
    let first = (matrix * LANES + column / 4u) * PARTIALS;
    var sum = 0.0;
    for (var i = 0u; i < PARTIALS; i++) {
        sum += partial_sums[first + i][column % 4u];
    }
    return sum * row_factor();
}
