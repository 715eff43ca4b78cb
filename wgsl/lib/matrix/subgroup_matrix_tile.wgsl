// A GEMM with subgroup matrices: a workgroup of 2 x 2 or 1 x 4 subgroups keeps K_STEP columns of A
// and rows of B in shared memory, each number as one f16 or as the sum of two (lib/matrix/f16_scaling.wgsl), and each
// subgroup ROW_MATRICES x COLUMN_MATRICES matrices of 16 x 16 sums in registers. The next step is prefetched while
// one is multiplied.
//
// A kernel that uses this file (and lib/matrix/subgroup_matrix.wgsl, lib/matrix/f16_scaling.wgsl and lib/gemm/gemm.wgsl) declares
// `split_f16` (array<vec4<u32>>: lib/matrix/split_f16.wgsl has written the rows of A there, the first and, with
// A_PARTS of 2, the second f16 of eight numbers one after the other), `exponents` (those of the m rows and of
// the n columns), and supplies a type BRaw and
//     fn fetch_b(column: u32, k: u32) -> BRaw            eight numbers along k, as they are in memory
//     fn b_unit(raw: BRaw, scale: f32) -> SplitUnit           their f16, times the column's power of two; any
//                                                        finite ones past the last k
//     fn write_two(part: Part, place: Place, row: u32, column: u32, left: Accumulator, right: Accumulator)
//                                                        writes the sums of 32 columns by way of `lane_sums`;
//                                                        lib/matrix/write_sums.wgsl has the plain one

const THREADS = 128u;
const ROW_MATRICES = ${ROW_MATRICES}u; // 2 or 4, as the columns'
const COLUMN_MATRICES = ${COLUMN_MATRICES}u;
const SUBGROUP_ROWS = ${SUBGROUP_ROWS}u; // 1 for few rows
const SUBGROUP_COLUMNS = 4u / SUBGROUP_ROWS;
const A_ROWS = SUBGROUP_ROWS * ROW_MATRICES * 16u;
const B_COLUMNS = SUBGROUP_COLUMNS * COLUMN_MATRICES * 16u;
// Numbers are two f16 each, or one if they are stored as f16 or that is precise enough.
const A_PARTS = ${A_PARTS}u;
const B_PARTS = ${B_PARTS}u;
const STEPS = ${STEPS}u; // matrices along k that lie in shared memory at once
const K_STEP = STEPS * 16u;
const K_FILL = 32u; // of lib/matrix/split_f16.wgsl

// Shared memory is blocks of 16 rows of A, or columns of B, of 16 numbers. From one line of a block to the next there are
// three units of eight f16, one of them padding, so that eight lines lie in eight different parts of shared memory.
// Pairs of blocks hold the first f16 of A, the second ones, then those of B; in the end, sums on their way out. More
// memory than that of 128 x 128 tiles leaves room for fewer workgroups on a core, at half the speed on an H200.
const LINE = 3u;
const BLOCK = 16u * LINE;
const SUMS_LINE = 4u; // units of four sums
const A_PAIRS = A_ROWS / 32u; // of one step
const B_PAIRS = B_COLUMNS / 32u;
const A_SECOND = STEPS * A_PAIRS * (A_PARTS - 1u); // from a pair of A to that of the second f16
const B_SECOND = STEPS * B_PAIRS * (B_PARTS - 1u);
const FIRST_B = STEPS * A_PAIRS + A_SECOND;
const PAIRS = FIRST_B + STEPS * B_PAIRS + B_SECOND;
var<workgroup> pairs: array<array<vec4<u32>, 2u * BLOCK>, PAIRS>;

// use lib/matrix/matrices_${MATRICES}.wgsl

// Units that an invocation loads for a step: A_UNITS of A and B_UNITS of B, at most four of each. If there are fewer of
// A than invocations, the others load those of the first ones again.
const A_UNITS = A_ROWS * 2u * STEPS / THREADS;
const B_UNITS = B_COLUMNS * 2u * STEPS / THREADS;

struct Fetched {
    a0: SplitUnit,
    a1: SplitUnit,
    a2: SplitUnit,
    a3: SplitUnit,
    b0: BRaw,
    b1: BRaw,
    b2: BRaw,
    b3: BRaw,
}

// The powers of two of the columns that an invocation loads.
struct Powers {
    p0: f32,
    p1: f32,
    p2: f32,
    p3: f32,
}

// An invocation's i-th unit: neighbours load the two units of a line, then lines, then steps.
fn line_of(thread: u32, i: u32, lines: u32) -> u32 { return (thread / 2u + THREADS / 2u * i) % lines; }
fn step_of(thread: u32, i: u32, lines: u32) -> u32 { return (thread / 2u + THREADS / 2u * i) / lines % STEPS; }
fn k_of(thread: u32, i: u32, lines: u32) -> u32 { return step_of(thread, i, lines) * 16u + thread % 2u * 8u; }
fn place_of(thread: u32, line: u32) -> u32 { return line % 32u * LINE + thread % 2u; }

// The place of a row's unit from k on.
fn split_place(row: u32, k: u32, parts: u32) -> u32 {
    return (row * ((params.gemm.k + K_FILL - 1u) / K_FILL * (K_FILL / 8u)) + k / 8u) * parts;
}

// Rows past the end repeat the last one; their sums are not written.
fn fetch_a(part: Part, thread: u32, k: u32, i: u32) -> SplitUnit {
    let row = min(part.row + line_of(thread, i, A_ROWS), params.gemm.m - 1u);
    let at = split_place(row, k + k_of(thread, i, A_ROWS), A_PARTS);
    var unit: SplitUnit;
    unit.high = split_f16[at];
    if (A_PARTS == 2u) {
        unit.low = split_f16[at + 1u];
    }
    return unit;
}

fn fetch_column(part: Part, thread: u32, k: u32, i: u32) -> BRaw {
    return fetch_b(part.column + line_of(thread, i, B_COLUMNS), k + k_of(thread, i, B_COLUMNS));
}

fn fetch(part: Part, thread: u32, k: u32) -> Fetched {
    var fetched: Fetched;
    fetched.a0 = fetch_a(part, thread, k, 0u);
    fetched.b0 = fetch_column(part, thread, k, 0u);
    if (A_UNITS > 1u) {
        fetched.a1 = fetch_a(part, thread, k, 1u);
    }
    if (B_UNITS > 1u) {
        fetched.b1 = fetch_column(part, thread, k, 1u);
    }
    if (A_UNITS > 2u) {
        fetched.a2 = fetch_a(part, thread, k, 2u);
        fetched.a3 = fetch_a(part, thread, k, 3u);
    }
    if (B_UNITS > 2u) {
        fetched.b2 = fetch_column(part, thread, k, 2u);
        fetched.b3 = fetch_column(part, thread, k, 3u);
    }
    return fetched;
}

fn column_power(part: Part, thread: u32, i: u32) -> f32 {
    let column = min(part.column + line_of(thread, i, B_COLUMNS), params.gemm.n - 1u);
    return power_of_two(-exponents[params.gemm.m + column]);
}

fn store_a(thread: u32, i: u32, unit: SplitUnit) {
    let line = line_of(thread, i, A_ROWS);
    let pair = step_of(thread, i, A_ROWS) * A_PAIRS + line / 32u;
    pairs[pair][place_of(thread, line)] = unit.high;
    if (A_PARTS == 2u) {
        pairs[A_SECOND + pair][place_of(thread, line)] = unit.low;
    }
}

fn store_b(thread: u32, i: u32, unit: SplitUnit) {
    let line = line_of(thread, i, B_COLUMNS);
    let pair = FIRST_B + step_of(thread, i, B_COLUMNS) * B_PAIRS + line / 32u;
    pairs[pair][place_of(thread, line)] = unit.high;
    if (B_PARTS == 2u) {
        pairs[B_SECOND + pair][place_of(thread, line)] = unit.low;
    }
}

fn store(thread: u32, fetched: Fetched, powers: Powers) {
    store_a(thread, 0u, fetched.a0);
    store_b(thread, 0u, b_unit(fetched.b0, powers.p0));
    if (A_UNITS > 1u) {
        store_a(thread, 1u, fetched.a1);
    }
    if (B_UNITS > 1u) {
        store_b(thread, 1u, b_unit(fetched.b1, powers.p1));
    }
    if (A_UNITS > 2u) {
        store_a(thread, 2u, fetched.a2);
        store_a(thread, 3u, fetched.a3);
    }
    if (B_UNITS > 2u) {
        store_b(thread, 2u, b_unit(fetched.b2, powers.p2));
        store_b(thread, 3u, b_unit(fetched.b3, powers.p3));
    }
}

// Eight of 16 x 16 sums, in a lane: four rows of a column, from `lane_row` on, and the four after them.
struct LaneSums {
    first: Quad,
    second: Quad,
}

fn lane_row(place: Place) -> u32 { return lane_of(place) / 16u * 8u; }
fn lane_column(place: Place) -> u32 { return lane_of(place) % 16u; }

fn lane_quad(part: Part, place: Place, row: u32, i: u32, columns: i32) -> Quad {
    let along = lane_column(place);
    var found: Quad;
    for (var r = i; r < i + 4u; r++) {
        let own = lane_row(place) + r;
        let bits = pairs[subgroup_of(place)][own * SUMS_LINE + along / 4u][along % 4u];
        let exponent = exponents[min(part.row + row + own, params.gemm.m - 1u)] + columns;
        found[r - i] = times_power(bitcast<f32>(bits), exponent);
    }
    return found;
}

// Sums of the subgroup, from `row` and `column` of the tile on, as numbers of the lanes. Called by all invocations.
fn lane_sums(part: Part, place: Place, row: u32, column: u32, sums: Accumulator) -> LaneSums {
    let at_column = min(part.column + column + lane_column(place), params.gemm.n - 1u);
    let columns = exponents[params.gemm.m + at_column];
    store_sums(sums, subgroup_of(place));
    workgroupBarrier();
    let found = LaneSums(lane_quad(part, place, row, 0u, columns), lane_quad(part, place, row, 4u, columns));
    workgroupBarrier();
    return found;
}

// The sums of a row of matrices, and the matrices of B for them: the first f16 and the second ones.
struct AccumulatorRow {
    s0: Accumulator,
    s1: Accumulator,
    s2: Accumulator,
    s3: Accumulator,
}

struct FragmentsB {
    r0: FragmentB,
    r1: FragmentB,
    r2: FragmentB,
    r3: FragmentB,
}

fn load_fragments_b(pair: u32) -> FragmentsB {
    var fragments: FragmentsB;
    fragments.r0 = load_first_b(pair);
    fragments.r1 = load_second_b(pair);
    if (COLUMN_MATRICES == 4u) {
        fragments.r2 = load_first_b(pair + 1u);
        fragments.r3 = load_second_b(pair + 1u);
    }
    return fragments;
}

// Neighbouring products add to different sums, so that none waits for another.
fn mma_row(sums: AccumulatorRow, left: FragmentA, fragments: FragmentsB) -> AccumulatorRow {
    var row = sums;
    row.s0 = mma(row.s0, left, fragments.r0);
    row.s1 = mma(row.s1, left, fragments.r1);
    if (COLUMN_MATRICES == 4u) {
        row.s2 = mma(row.s2, left, fragments.r2);
        row.s3 = mma(row.s3, left, fragments.r3);
    }
    return row;
}

// The small products come first, and the one of both low parts is left out.
fn mma_split_row(sums: AccumulatorRow, high: FragmentA, low: FragmentA, fragments: FragmentsB, fragments_low: FragmentsB) -> AccumulatorRow {
    var row = sums;
    if (B_PARTS == 2u) {
        row = mma_row(row, high, fragments_low);
    }
    if (A_PARTS == 2u) {
        row = mma_row(row, low, fragments);
    }
    return mma_row(row, high, fragments);
}

struct AccumulatorTile {
    row0: AccumulatorRow,
    row1: AccumulatorRow,
    row2: AccumulatorRow,
    row3: AccumulatorRow,
}

// Adds the products of 16 k; `left` and `right` are the subgroup's first pairs.
fn mma_k_step(sums: AccumulatorTile, left: u32, right: u32) -> AccumulatorTile {
    var rows = sums;
    let high = load_fragments_b(right);
    var low: FragmentsB;
    if (B_PARTS == 2u) {
        low = load_fragments_b(B_SECOND + right);
    }
    rows.row0 = mma_split_row(rows.row0, load_first_a(left), load_first_a(A_SECOND + left), high, low);
    rows.row1 = mma_split_row(rows.row1, load_second_a(left), load_second_a(A_SECOND + left), high, low);
    if (ROW_MATRICES == 4u) {
        rows.row2 = mma_split_row(rows.row2, load_first_a(left + 1u), load_first_a(A_SECOND + left + 1u), high, low);
        rows.row3 = mma_split_row(rows.row3, load_second_a(left + 1u), load_second_a(A_SECOND + left + 1u), high, low);
    }
    return rows;
}

fn write_row(part: Part, place: Place, row: u32, column: u32, sums: AccumulatorRow) {
    write_two(part, place, row, column, sums.s0, sums.s1);
    if (COLUMN_MATRICES == 4u) {
        write_two(part, place, row, column + 32u, sums.s2, sums.s3);
    }
}

fn multiply_matrices(part: Part, place: Place) {
    let thread = place.thread;
    let across = subgroup_of(place) / SUBGROUP_COLUMNS * (ROW_MATRICES / 2u);
    let along = subgroup_of(place) % SUBGROUP_COLUMNS * (COLUMN_MATRICES / 2u);
    let powers = Powers(
        column_power(part, thread, 0u),
        column_power(part, thread, 1u),
        column_power(part, thread, 2u),
        column_power(part, thread, 3u),
    );
    var sums: AccumulatorTile;
    var fetched = fetch(part, thread, part.k_begin);
    for (var k = part.k_begin; k < part.k_end; k += K_STEP) {
        store(thread, fetched, powers);
        workgroupBarrier();
        if (k + K_STEP < part.k_end) {
            fetched = fetch(part, thread, k + K_STEP);
        }
        sums = mma_k_step(sums, across, FIRST_B + along);
        if (STEPS == 2u) {
            sums = mma_k_step(sums, A_PAIRS + across, FIRST_B + B_PAIRS + along);
        }
        workgroupBarrier();
    }
    let row = across * 32u;
    let column = along * 32u;
    write_row(part, place, row, column, sums.row0);
    write_row(part, place, row + 16u, column, sums.row1);
    if (ROW_MATRICES == 4u) {
        write_row(part, place, row + 32u, column, sums.row2);
        write_row(part, place, row + 48u, column, sums.row3);
    }
}
