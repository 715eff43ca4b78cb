// A GEMM with subgroup matrices: a workgroup of SUBGROUP_ROWS x 2 subgroups keeps K_STEP columns of A
// and rows of B in shared memory, each number as the sum of two f16 (lib/gemm/f16_scaling.wgsl), and each
// subgroup ROW_MATRICES x COLUMN_MATRICES matrices of 16 x 16 sums in registers. The next step is prefetched while
// one is multiplied.
//
// A kernel that uses this file (and lib/gemm/subgroup_matrix.wgsl, lib/gemm/f16_scaling.wgsl and lib/gemm/gemm.wgsl) declares
// `split_f16` (array<vec4<u32>>: the rows of A, the first and the second f16 of each quad, with zeros
// up to a multiple of K_STEP), `exponents` (those of the m rows and of the n columns), and supplies a type
// BRaw and
//     fn fetch_b(column: u32, k: u32) -> BRaw            B_QUADS quads along k, as they are in memory
//     fn b_pairs(raw: BRaw, scale: f32) -> Pairs         their numbers, times the column's power of two; zeros
//                                                        past the last k

const K_STEP = 16u;
const STEP_QUADS = K_STEP / 4u;
const SUBGROUP_ROWS = ${SUBGROUP_ROWS}u;
const THREADS = 2u * SUBGROUP_ROWS * 32u;
const ROW_MATRICES = ${ROW_MATRICES}u; // 2 or 4, as the columns'
const COLUMN_MATRICES = ${COLUMN_MATRICES}u;
const A_ROWS = SUBGROUP_ROWS * ROW_MATRICES * 16u;
const B_COLUMNS = 2u * COLUMN_MATRICES * 16u;
const ROWS_AT_ONCE = THREADS / STEP_QUADS; // rows of A that all invocations load together
const B_THREADS = THREADS / B_COLUMNS; // that load one column: 1 or 2
const B_QUADS = STEP_QUADS / B_THREADS;
// Numbers are two f16 each, or one if they are stored as f16.
const A_PARTS = ${A_PARTS}u;
const B_PARTS = ${B_PARTS}u;

// Quads from one row of A, or column of B, to the next: two of them are padding, so that eight rows lie in
// eight different parts of shared memory.
const LINE = STEP_QUADS + 2u;
const A_LINES = 16u * ROW_MATRICES; // of one row of subgroups
const B_LINES = 16u * COLUMN_MATRICES; // of one column of them
const A_LOWS = select(1u, ROW_MATRICES, A_PARTS == 2u);
const B_LOWS = select(1u, COLUMN_MATRICES, B_PARTS == 2u);
var<workgroup> a_high: array<array<F16Quad, A_LINES * LINE>, SUBGROUP_ROWS>;
var<workgroup> a_low: array<array<F16Quad, A_LOWS * 16u * LINE>, SUBGROUP_ROWS>;
var<workgroup> b_high: array<array<F16Quad, B_LINES * LINE>, 2>;
var<workgroup> b_low: array<array<F16Quad, B_LOWS * 16u * LINE>, 2>;
var<workgroup> patches: array<array<vec4<f32>, 64>, 2u * SUBGROUP_ROWS>; // 16 x 16 sums of each subgroup

// use lib/gemm/subgroup_matrix_memory.wgsl

// Up to four quads, the first and the second f16 of each.
struct Pairs {
    p0: vec4<u32>,
    p1: vec4<u32>,
    p2: vec4<u32>,
    p3: vec4<u32>,
}

// An invocation loads one quad along k of ROW_MATRICES rows of A, and B_QUADS of one column of B.
struct Fetched {
    a0: vec4<u32>,
    a1: vec4<u32>,
    a2: vec4<u32>,
    a3: vec4<u32>,
    b: BRaw,
}

fn b_column(thread: u32) -> u32 { return thread / B_THREADS; }
fn b_first_quad(thread: u32) -> u32 { return thread % B_THREADS * B_QUADS; }

// The place of a row's quad from k on.
fn split_place(row: u32, k: u32) -> u32 {
    return row * ((params.gemm.k + K_STEP - 1u) / K_STEP * STEP_QUADS) + k / 4u;
}

// Rows past the end repeat the last one; their sums are not written.
fn fetch_a(part: Part, thread: u32, k: u32, i: u32) -> vec4<u32> {
    let row = min(part.row + thread / STEP_QUADS + ROWS_AT_ONCE * i, params.gemm.m - 1u);
    return split_f16[split_place(row, k) + thread % STEP_QUADS];
}

fn fetch(part: Part, thread: u32, k: u32) -> Fetched {
    var fetched: Fetched;
    fetched.a0 = fetch_a(part, thread, k, 0u);
    fetched.a1 = fetch_a(part, thread, k, 1u);
    if (ROW_MATRICES == 4u) {
        fetched.a2 = fetch_a(part, thread, k, 2u);
        fetched.a3 = fetch_a(part, thread, k, 3u);
    }
    fetched.b = fetch_b(part.column + b_column(thread), k + b_first_quad(thread) * 4u);
    return fetched;
}

fn store_a(thread: u32, i: u32, pair: vec4<u32>) {
    let row = thread / STEP_QUADS + ROWS_AT_ONCE * i;
    let at = row % A_LINES * LINE + thread % STEP_QUADS;
    a_high[row / A_LINES][at] = bitcast<F16Quad>(pair.xy);
    if (A_PARTS == 2u) {
        a_low[row / A_LINES][at] = bitcast<F16Quad>(pair.zw);
    }
}

fn store_b(thread: u32, i: u32, pair: vec4<u32>) {
    let column = b_column(thread);
    let at = column % B_LINES * LINE + b_first_quad(thread) + i;
    b_high[column / B_LINES][at] = bitcast<F16Quad>(pair.xy);
    if (B_PARTS == 2u) {
        b_low[column / B_LINES][at] = bitcast<F16Quad>(pair.zw);
    }
}

fn store(thread: u32, fetched: Fetched, scale: f32) {
    store_a(thread, 0u, fetched.a0);
    store_a(thread, 1u, fetched.a1);
    if (ROW_MATRICES == 4u) {
        store_a(thread, 2u, fetched.a2);
        store_a(thread, 3u, fetched.a3);
    }
    let pairs = b_pairs(fetched.b, scale);
    store_b(thread, 0u, pairs.p0);
    store_b(thread, 1u, pairs.p1);
    if (B_QUADS == 4u) {
        store_b(thread, 2u, pairs.p2);
        store_b(thread, 3u, pairs.p3);
    }
}

// The small products come first; the one of both low parts is left out.
fn plus_products(sums: Sums, high: Left, low: Left, right_high: Right, right_low: Right) -> Sums {
    var found = sums;
    if (B_PARTS == 2u) {
        found = plus_product(found, high, right_low);
    }
    if (A_PARTS == 2u) {
        found = plus_product(found, low, right_high);
    }
    return plus_product(found, high, right_high);
}

fn write_sums(part: Part, place: Place, row: u32, column: u32, sums: Sums) {
    let subgroup = subgroup_of(place);
    store_sums(sums, subgroup);
    workgroupBarrier();
    for (var i = lane_of(place); i < 64u; i += 32u) {
        let at_row = part.row + row + i / 4u;
        let at_column = part.column + column + i % 4u * 4u;
        let found = patches[subgroup][i];
        var result = vec4<f32>();
        if (at_row < params.gemm.m) {
            let exponent = exponents[at_row];
            for (var c = 0u; c < 4u; c++) {
                let columns = exponents[params.gemm.m + min(at_column + c, params.gemm.n - 1u)];
                result[c] = times_power(found[c], exponent + columns);
            }
        }
        write_quad(part, at_row, at_column, Quad(result));
    }
    workgroupBarrier();
}

// Single variables, not arrays or structs: compilers keep them in registers.
fn multiply_matrices(part: Part, place: Place) {
    let thread = place.thread;
    let across = subgroup_of(place) / 2u;
    let along = subgroup_of(place) % 2u;
    let last = params.gemm.n - 1u;
    let scale = power_of(-exponents[params.gemm.m + min(part.column + b_column(thread), last)]);
    var s00: Sums;
    var s01: Sums;
    var s02: Sums;
    var s03: Sums;
    var s10: Sums;
    var s11: Sums;
    var s12: Sums;
    var s13: Sums;
    var s20: Sums;
    var s21: Sums;
    var s22: Sums;
    var s23: Sums;
    var s30: Sums;
    var s31: Sums;
    var s32: Sums;
    var s33: Sums;
    var fetched = fetch(part, thread, part.k_begin);
    for (var k = part.k_begin; k < part.k_end; k += K_STEP) {
        store(thread, fetched, scale);
        workgroupBarrier();
        if (k + K_STEP < part.k_end) {
            fetched = fetch(part, thread, k + K_STEP);
        }
        let b0 = high_right0(along);
        let c0 = low_right0(along);
        let b1 = high_right1(along);
        let c1 = low_right1(along);
        var b2: Right;
        var c2: Right;
        var b3: Right;
        var c3: Right;
        if (COLUMN_MATRICES == 4u) {
            b2 = high_right2(along);
            c2 = low_right2(along);
            b3 = high_right3(along);
            c3 = low_right3(along);
        }
        let a0 = high_left0(across);
        let d0 = low_left0(across);
        s00 = plus_products(s00, a0, d0, b0, c0);
        s01 = plus_products(s01, a0, d0, b1, c1);
        if (COLUMN_MATRICES == 4u) {
            s02 = plus_products(s02, a0, d0, b2, c2);
            s03 = plus_products(s03, a0, d0, b3, c3);
        }
        let a1 = high_left1(across);
        let d1 = low_left1(across);
        s10 = plus_products(s10, a1, d1, b0, c0);
        s11 = plus_products(s11, a1, d1, b1, c1);
        if (COLUMN_MATRICES == 4u) {
            s12 = plus_products(s12, a1, d1, b2, c2);
            s13 = plus_products(s13, a1, d1, b3, c3);
        }
        if (ROW_MATRICES == 4u) {
            let a2 = high_left2(across);
            let d2 = low_left2(across);
            s20 = plus_products(s20, a2, d2, b0, c0);
            s21 = plus_products(s21, a2, d2, b1, c1);
            if (COLUMN_MATRICES == 4u) {
                s22 = plus_products(s22, a2, d2, b2, c2);
                s23 = plus_products(s23, a2, d2, b3, c3);
            }
            let a3 = high_left3(across);
            let d3 = low_left3(across);
            s30 = plus_products(s30, a3, d3, b0, c0);
            s31 = plus_products(s31, a3, d3, b1, c1);
            if (COLUMN_MATRICES == 4u) {
                s32 = plus_products(s32, a3, d3, b2, c2);
                s33 = plus_products(s33, a3, d3, b3, c3);
            }
        }
        workgroupBarrier();
    }
    let row = across * A_LINES;
    let column = along * B_LINES;
    write_sums(part, place, row, column, s00);
    write_sums(part, place, row, column + 16u, s01);
    write_sums(part, place, row + 16u, column, s10);
    write_sums(part, place, row + 16u, column + 16u, s11);
    if (COLUMN_MATRICES == 4u) {
        write_sums(part, place, row, column + 32u, s02);
        write_sums(part, place, row, column + 48u, s03);
        write_sums(part, place, row + 16u, column + 32u, s12);
        write_sums(part, place, row + 16u, column + 48u, s13);
    }
    if (ROW_MATRICES == 4u) {
        write_sums(part, place, row + 32u, column, s20);
        write_sums(part, place, row + 32u, column + 16u, s21);
        write_sums(part, place, row + 48u, column, s30);
        write_sums(part, place, row + 48u, column + 16u, s31);
    }
    if (ROW_MATRICES * COLUMN_MATRICES == 16u) {
        write_sums(part, place, row + 32u, column + 32u, s22);
        write_sums(part, place, row + 32u, column + 48u, s23);
        write_sums(part, place, row + 48u, column + 32u, s32);
        write_sums(part, place, row + 48u, column + 48u, s33);
    }
}
