// GEMV of one row of x with quantized weights. It takes microseconds, so the time depends on having many
// reads in flight and few barriers.
//
// A workgroup has COLUMNS columns. SLICES neighbouring invocations share four of them and walk along k:
// in each turn an invocation takes one unit (a vec4<u32>, all values of which share a scale) of each of
// its four columns, and prefetches those of the next turn. x is in shared memory, all of it or as much as
// CHUNK turns need, ordered so that neighbours use different memory banks.
//
// With NORMED, x is RMS-normalized with the weights `gain`: sums are computed with x * gain and multiplied
// by 1 / rms at the end. With CENTERED, too, this is a layer norm: x has its mean subtracted first.
//
// Goes with lib/gemm/gemm.wgsl, lib/gemm/q4_weights.wgsl and lib/gemm/q4_units.wgsl, and with one of lib/gemm/gemv_row.wgsl
// and lib/gemm/gemv_computed_row.wgsl, which say what x is: `first_x` is `fetch_x` for the first chunk, and `row_quad` a quad
// of the others. The kernel declares `gain` (an array of quads), `params.gemm`, `params.eps` and
//     fn fetch_units(matrix: u32, at: u32, scale: u32) -> Units    at `at`, and UNITS from one to the next

override NORMED: bool = false;
override CENTERED: bool = false;

const THREADS = ${THREADS}u;
const SLICES = ${SLICES}u; // a multiple of PARTIALS
const LANES = THREADS / SLICES;
const COLUMNS = LANES * 4u;
const UNITS = ${UNITS}u; // of a column
const TURNS = (UNITS + SLICES - 1u) / SLICES;
const CHUNK = ${CHUNK}u; // turns whose x is in shared memory at once
const X_QUADS = ${X_QUADS}u; // of a unit
const STAGED = CHUNK * SLICES * X_QUADS; // quads of x in a chunk
const X_LOADS = (STAGED + THREADS - 1u) / THREADS;
const MATRICES = ${MATRICES}u; // multiplied at once
const PARTIALS = 8u; // parts of a column's sum after the slices were added up
const SCALAR_PARTIALS = 32u; // parts of a sum of one number of each invocation

alias Run = array<vec4<f32>, X_LOADS>;

// A unit of each of four columns, and their scales.
struct Units {
    c0: vec4<u32>,
    c1: vec4<u32>,
    c2: vec4<u32>,
    c3: vec4<u32>,
    scale: vec4<f32>,
}

var<workgroup> staged: array<array<vec4<f32>, CHUNK * SLICES>, X_QUADS>;
var<workgroup> slice_sums: array<Quad, MATRICES * THREADS>;
var<workgroup> partial_sums: array<Quad, MATRICES * LANES * PARTIALS>;
var<workgroup> slice_scalars: array<f32, THREADS>;
var<workgroup> folded_scalars: array<f32, SCALAR_PARTIALS>;
var<private> mean: f32;
var<private> gains: Run;

fn slice_of(thread: u32) -> u32 { return thread % SLICES; }
fn lane_of(thread: u32) -> u32 { return thread / SLICES; }

// Units past the end read the last one; their x is zero.
fn unit_of(turn: u32, thread: u32) -> u32 { return min(turn * SLICES + slice_of(thread), UNITS - 1u); }

// The quads of x that an invocation loads for a chunk.
fn fetch_x(chunk: u32, thread: u32) -> Run {
    var run = Run();
    for (var i = 0u; i < X_LOADS; i++) {
        let quad = chunk * STAGED + i * THREADS + thread;
        if (i * THREADS + thread < STAGED && quad < UNITS * X_QUADS) {
            run[i] = row_quad(quad);
        }
    }
    return run;
}

// The gains that belong to them.
fn fetch_gains(chunk: u32, thread: u32) {
    if (NORMED) {
        for (var i = 0u; i < X_LOADS; i++) {
            gains[i] = vec4<f32>(gain[min(chunk * STAGED + i * THREADS + thread, UNITS * X_QUADS - 1u)]);
        }
    }
}

// Finds the mean of x, by all invocations of a workgroup.
fn find_mean(thread: u32) {
    var sum = 0.0;
    for (var quad = thread; quad < UNITS * X_QUADS; quad += THREADS) {
        sum += dot(row_quad(quad), vec4<f32>(1.0));
    }
    mean = total_of(thread, sum) / f32(params.gemm.k);
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

// Adds up what the invocations have in `slice_scalars`, in parts that `sum_of_scalars` adds.
fn reduce_scalars(thread: u32) {
    if (thread < SCALAR_PARTIALS) {
        var sum = 0.0;
        for (var z = thread; z < THREADS; z += SCALAR_PARTIALS) {
            sum += slice_scalars[z];
        }
        folded_scalars[thread] = sum;
    }
}

fn sum_of_scalars() -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < SCALAR_PARTIALS; i++) {
        sum += folded_scalars[i];
    }
    return sum;
}

// Stores them in shared memory and returns the sum of their squares.
fn stage_x(chunk: u32, thread: u32, run: Run) -> f32 {
    var squares = 0.0;
    for (var i = 0u; i < X_LOADS; i++) {
        let at = i * THREADS + thread;
        if (at < STAGED) {
            var values = run[i];
            if (CENTERED && chunk * STAGED + at < UNITS * X_QUADS) {
                values -= mean;
            }
            if (NORMED) {
                squares += dot(values, values);
                values *= gains[i];
            }
            staged[at % X_QUADS][at / X_QUADS] = values;
        }
    }
    return squares;
}

fn accumulate_word(sums: Quad, words: vec4<u32>, slice: u32, quad: u32) -> Quad {
    let first = fma_block(sums, staged[quad][slice], unscaled_block(words));
    if (FORMAT == BYTES) {
        return first;
    }
    return fma_block(first, staged[quad + 1u][slice], unscaled_block(words >> vec4<u32>(16u)));
}

// Adds a unit of four columns to the sums.
fn accumulate_units(sums: Quad, units: Units, turn: u32, thread: u32) -> Quad {
    let slice = turn % CHUNK * SLICES + slice_of(thread);
    const STEP = X_QUADS / 4u;
    var found = accumulate_word(Quad(), vec4<u32>(units.c0.x, units.c1.x, units.c2.x, units.c3.x), slice, 0u);
    found = accumulate_word(found, vec4<u32>(units.c0.y, units.c1.y, units.c2.y, units.c3.y), slice, STEP);
    found = accumulate_word(found, vec4<u32>(units.c0.z, units.c1.z, units.c2.z, units.c3.z), slice, 2u * STEP);
    found = accumulate_word(found, vec4<u32>(units.c0.w, units.c1.w, units.c2.w, units.c3.w), slice, 3u * STEP);
    return fma(found, units.scale, sums);
}

// A unit of four columns; `stride` leads from one group's scales to the next one's.
fn units_at(matrix: u32, stride: u32, column: u32, unit: u32) -> Units {
    let scale = (unit * values_per_unit() / GROUP_SIZE * stride + column) / 4u;
    return fetch_units(matrix, column * UNITS + unit, scale);
}

// Multiplies x with four columns of a matrix for each lane, by all invocations of a workgroup; `sum_of`
// returns the sums. With two MATRICES, they are the first and the second; else `matrix`, the same for all.
fn multiply_row(thread: u32, matrix: u32, stride: u32, column: u32) {
    var units = units_at(matrix, stride, column, unit_of(0u, thread));
    var others = Units();
    if (MATRICES == 2u) {
        others = units_at(1u, stride, column, unit_of(0u, thread));
    }
    fetch_gains(0u, thread);
    var run = first_x(thread);
    if (CENTERED) {
        find_mean(thread);
    }
    var sums = Quad();
    var other_sums = Quad();
    var squares = 0.0;
    for (var turn = 0u; turn < TURNS; turn++) {
        if (turn % CHUNK == 0u) {
            squares += stage_x(turn / CHUNK, thread, run);
        }
        let now = units;
        let others_now = others;
        if (turn + 1u < TURNS) {
            units = units_at(matrix, stride, column, unit_of(turn + 1u, thread));
            if (MATRICES == 2u) {
                others = units_at(1u, stride, column, unit_of(turn + 1u, thread));
            }
        }
        if (turn % CHUNK == 0u) {
            run = fetch_x(turn / CHUNK + 1u, thread);
            fetch_gains(turn / CHUNK + 1u, thread);
            workgroupBarrier();
        }
        sums = accumulate_units(sums, now, turn, thread);
        if (MATRICES == 2u) {
            other_sums = accumulate_units(other_sums, others_now, turn, thread);
        }
        if ((turn + 1u) % CHUNK == 0u && turn + 1u < TURNS) {
            workgroupBarrier();
        }
    }
    slice_sums[thread] = sums;
    if (MATRICES == 2u) {
        slice_sums[THREADS + thread] = other_sums;
    }
    reduce_slices(thread, squares);
}

// Adds up the sums of the slices.
fn reduce_slices(thread: u32, squares: f32) {
    if (NORMED) {
        slice_scalars[thread] = squares;
    }
    workgroupBarrier();
    for (var i = thread; i < MATRICES * LANES * PARTIALS; i += THREADS) {
        var sums = Quad();
        for (var z = 0u; z < SLICES / PARTIALS; z++) {
            sums += slice_sums[i / PARTIALS * SLICES + i % PARTIALS + z * PARTIALS];
        }
        partial_sums[i] = sums;
    }
    if (NORMED) {
        reduce_scalars(thread);
    }
    workgroupBarrier();
}

// The workgroup's column-th column.
fn sum_of(matrix: u32, column: u32) -> f32 {
    let first = (matrix * LANES + column / 4u) * PARTIALS;
    var sum = 0.0;
    for (var i = 0u; i < PARTIALS; i++) {
        sum += partial_sums[first + i][column % 4u];
    }
    if (!NORMED) {
        return sum;
    }
    return sum * inverseSqrt(sum_of_scalars() / f32(params.gemm.k) + params.eps);
}
