// One tile of a GEMM of two int8 matrices, by 256 invocations. Goes with lib/bytes.wgsl and
// lib/int8/int8.wgsl.
//
// Each invocation computes 4 x 4 sums; k counts words of four bytes. A small tile does not need all
// 256, so they form slices that add up different parts of k; their sums meet in workgroup memory at
// the end. While a step is computed, the next one is prefetched to registers.
// The kernel supplies
//   WEIGHTS_IN_ROWS: bool                          which of the two are weights
//   load_rows(k: u32, quad: u32) -> vec4<u32>      four rows of the tile
//   load_columns(k: u32) -> vec4<u32>              the four columns of this invocation
//   zero_of_row(row: u32) -> i32                   x's zero
//   finish(row: u32, sums: vec4<i32>)              sums of (x - zero) * weight in these columns
// Weights past the last k are 0. An invocation loads the columns that it will finish: quad number
// column_quad(thread) of the tile.

const TILE_ROWS = ${TILE_ROWS}u;
const TILE_COLUMNS = ${TILE_COLUMNS}u;
const STEP = ${STEP}u; // of k
const THREADS = 256u;

const ROW_QUADS = TILE_ROWS / 4u;
const COLUMN_QUADS = TILE_COLUMNS / 4u;
const SLICE_THREADS = ROW_QUADS * COLUMN_QUADS;
const SLICES = THREADS / SLICE_THREADS;
const STEP_ROW_QUADS = STEP * ROW_QUADS;
const SLICE_QUADS = STEP * (ROW_QUADS + COLUMN_QUADS);
const ROW_LOADS = (STEP_ROW_QUADS + SLICE_THREADS - 1u) / SLICE_THREADS;
const COLUMN_LOADS = STEP * COLUMN_QUADS / SLICE_THREADS;
const TILE_QUADS = TILE_ROWS * COLUMN_QUADS;

// Per slice the rows (k, row quad), then the columns (k, column quad); later the sums of
// all slices but the first.
var<workgroup> quads: array<vec4<u32>, max(SLICES * SLICE_QUADS, (SLICES - 1u) * TILE_QUADS)>;
// Sums of each row or column of weights, which x's zero is multiplied with.
var<workgroup> weight_sums: array<atomic<i32>, max(TILE_ROWS, TILE_COLUMNS)>;

fn column_quad(thread: u32) -> u32 {
    return thread % COLUMN_QUADS;
}

struct Fetched {
    rows: array<vec4<u32>, ROW_LOADS>,
    columns: array<vec4<u32>, COLUMN_LOADS>,
}

fn fetch(member: u32, k: u32) -> Fetched {
    var fetched: Fetched;
    for (var i = 0u; i < ROW_LOADS; i++) {
        let at = member + i * SLICE_THREADS;
        if (at < STEP_ROW_QUADS) {
            fetched.rows[i] = load_rows(k + at / ROW_QUADS, at % ROW_QUADS);
        }
    }
    for (var i = 0u; i < COLUMN_LOADS; i++) {
        fetched.columns[i] = load_columns(k + (member + i * SLICE_THREADS) / COLUMN_QUADS);
    }
    return fetched;
}

// All weights that an invocation fetches belong to the same four rows or columns.
fn weights_of(fetched: Fetched) -> vec4<i32> {
    var sum = vec4<i32>();
    if (WEIGHTS_IN_ROWS) {
        for (var i = 0u; i < ROW_LOADS; i++) {
            sum += dots(fetched.rows[i], ONES);
        }
    } else {
        for (var i = 0u; i < COLUMN_LOADS; i++) {
            sum += dots(fetched.columns[i], ONES);
        }
    }
    return sum;
}

fn add_weights(thread: u32, weights: vec4<i32>) {
    let first = 4u * select(column_quad(thread), thread % SLICE_THREADS % ROW_QUADS, WEIGHTS_IN_ROWS);
    for (var i = 0u; i < 4u; i++) {
        atomicAdd(&weight_sums[first + i], weights[i]);
    }
}

fn finish_row(thread: u32, row: u32, sums: vec4<i32>) {
    var weights = vec4<i32>();
    if (WEIGHTS_IN_ROWS) {
        weights = vec4<i32>(atomicLoad(&weight_sums[row]));
    } else {
        for (var i = 0u; i < 4u; i++) {
            weights[i] = atomicLoad(&weight_sums[4u * column_quad(thread) + i]);
        }
    }
    finish(row, sums - zero_of_row(row) * weights);
}

fn sum_of_slices(at: u32) -> vec4<i32> {
    var sum = vec4<i32>();
    for (var slice = 1u; slice < SLICES; slice++) {
        sum += bitcast<vec4<i32>>(quads[(slice - 1u) * TILE_QUADS + at]);
    }
    return sum;
}

// The sums over `words` of k.
fn multiply(thread: u32, words: u32) {
    let slice = thread / SLICE_THREADS;
    let member = thread % SLICE_THREADS;
    let rows_at = slice * SLICE_QUADS;
    let columns_at = rows_at + STEP_ROW_QUADS;
    var weights = vec4<i32>();
    var row0 = vec4<i32>();
    var row1 = vec4<i32>();
    var row2 = vec4<i32>();
    var row3 = vec4<i32>();

    var next = fetch(member, slice * STEP);
    for (var k = 0u; k < words; k += SLICES * STEP) {
        weights += weights_of(next);
        for (var i = 0u; i < ROW_LOADS; i++) {
            let at = member + i * SLICE_THREADS;
            if (at < STEP_ROW_QUADS) {
                quads[rows_at + at] = next.rows[i];
            }
        }
        for (var i = 0u; i < COLUMN_LOADS; i++) {
            quads[columns_at + member + i * SLICE_THREADS] = next.columns[i];
        }
        workgroupBarrier();
        next = fetch(member, k + (SLICES + slice) * STEP);
        for (var i = 0u; i < STEP; i++) {
            let rows = quads[rows_at + i * ROW_QUADS + member / COLUMN_QUADS];
            let columns = quads[columns_at + i * COLUMN_QUADS + column_quad(thread)];
            row0 += dots(columns, rows.x);
            row1 += dots(columns, rows.y);
            row2 += dots(columns, rows.z);
            row3 += dots(columns, rows.w);
        }
        workgroupBarrier();
    }
    add_weights(thread, weights);

    // The first slice adds the sums of the others.
    let row = member / COLUMN_QUADS * 4u;
    let at = row * COLUMN_QUADS + column_quad(thread);
    if (slice > 0u) {
        let part = (slice - 1u) * TILE_QUADS + at;
        quads[part] = bitcast<vec4<u32>>(row0);
        quads[part + COLUMN_QUADS] = bitcast<vec4<u32>>(row1);
        quads[part + 2u * COLUMN_QUADS] = bitcast<vec4<u32>>(row2);
        quads[part + 3u * COLUMN_QUADS] = bitcast<vec4<u32>>(row3);
    }
    workgroupBarrier();
    if (slice == 0u) {
        finish_row(thread, row, row0 + sum_of_slices(at));
        finish_row(thread, row + 1u, row1 + sum_of_slices(at + COLUMN_QUADS));
        finish_row(thread, row + 2u, row2 + sum_of_slices(at + 2u * COLUMN_QUADS));
        finish_row(thread, row + 3u, row3 + sum_of_slices(at + 3u * COLUMN_QUADS));
    }
}
