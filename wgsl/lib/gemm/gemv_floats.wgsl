// A row of floats in a GEMV: in shared memory, all of it or as much as CHUNK turns need, ordered so that neighbours use
// different memory banks.
//
// With NORMED, x is RMS-normalized with the weights `gain`: sums are computed with x * gain and multiplied
// by 1 / rms at the end. With CENTERED, too, this is a layer norm: x has its mean subtracted first.
//
// Goes with lib/gemm/gemv_q4.wgsl, and with one of lib/gemm/gemv_row_floats.wgsl and lib/gemm/gemv_computed_row.wgsl:
// `first_x` is `fetch_x` for the first chunk, and `row_quad` a quad of the others.

override NORMED: bool = false;
override CENTERED: bool = false;

const CHUNK = ${CHUNK}u; // turns whose x is in shared memory at once
const X_QUADS = ${X_QUADS}u; // of a unit
const STAGED = CHUNK * SLICES * X_QUADS; // quads of x in a chunk
const X_LOADS = (STAGED + THREADS - 1u) / THREADS;
const SCALAR_PARTIALS = 32u; // parts of a sum of one number of each invocation

alias Run = array<vec4<f32>, X_LOADS>;

var<workgroup> staged: array<array<vec4<f32>, CHUNK * SLICES>, X_QUADS>;
var<workgroup> slice_scalars: array<f32, THREADS>;
var<workgroup> folded_scalars: array<f32, SCALAR_PARTIALS>;
var<private> mean: f32;
var<private> gains: Run;

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
    if (NORMED) {
        slice_scalars[thread] = squares;
    }
    slice_sums[thread] = sums;
    if (MATRICES == 2u) {
        slice_sums[THREADS + thread] = other_sums;
    }
    reduce_slices(thread);
}

fn reduce_row(thread: u32) {
    if (NORMED) {
        reduce_scalars(thread);
    }
}

fn row_factor() -> f32 {
    if (!NORMED) {
        return 1.0;
    }
    return inverseSqrt(sum_of_scalars() / f32(params.gemm.k) + params.eps);
}
