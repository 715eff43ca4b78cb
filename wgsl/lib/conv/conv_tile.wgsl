// One tile of the GEMM of a matrix of weights and a matrix of columns, by 256 invocations.
//
// Each invocation computes 4 x 4 elements. A small tile does not need all 256, so they form slices that
// add up different parts of k; their sums meet in workgroup memory at the end. While a step is computed
// from workgroup memory, the next one is prefetched to registers.
// The kernel supplies
//   load_weights(k: u32, quad: u32) -> mat4x4<f32> four rows of the tile, a column per k
//   load_columns(k: u32) -> vec4<f32>              the four columns of this invocation
//   store(row: u32, value: vec4<f32>)              the results of these columns in one row
// An invocation loads the columns that it will store: quad number column_quad(thread) of the tile.

const TILE_ROWS = ${TILE_ROWS}u;
const TILE_COLUMNS = ${TILE_COLUMNS}u;
const STEP = ${STEP}u; // of k
const THREADS = 256u;

const ROW_QUADS = TILE_ROWS / 4u;
const COLUMN_QUADS = TILE_COLUMNS / 4u;
const SLICE_THREADS = ROW_QUADS * COLUMN_QUADS;
const SLICES = THREADS / SLICE_THREADS;
const WEIGHT_QUADS = STEP * ROW_QUADS;
const WEIGHT_BLOCKS = WEIGHT_QUADS / 4u; // at most one per invocation
const SLICE_QUADS = STEP * (ROW_QUADS + COLUMN_QUADS);
const COLUMN_LOADS = STEP * COLUMN_QUADS / SLICE_THREADS;
const TILE_QUADS = TILE_ROWS * COLUMN_QUADS;

// Per slice the weights (k, row quad), then the columns (k, column quad); later the sums.
var<workgroup> quads: array<vec4<f32>, max(SLICES * SLICE_QUADS, select(0u, SLICES * TILE_QUADS, SLICES > 1u))>;

fn column_quad(thread: u32) -> u32 {
    return thread % COLUMN_QUADS;
}

// The loads of one invocation for a step. Not arrays: not every compiler keeps those in registers.
struct Fetched {
    weights: mat4x4<f32>,
    columns0: vec4<f32>,
    columns1: vec4<f32>,
}

fn fetch(member: u32, k: u32) -> Fetched {
    var fetched: Fetched;
    if (member < WEIGHT_BLOCKS) {
        fetched.weights = load_weights(k + member % (STEP / 4u) * 4u, member / (STEP / 4u));
    }
    fetched.columns0 = load_columns(k + member / COLUMN_QUADS);
    if (COLUMN_LOADS > 1u) {
        fetched.columns1 = load_columns(k + (member + SLICE_THREADS) / COLUMN_QUADS);
    }
    return fetched;
}

fn keep(fetched: Fetched, member: u32, weights_at: u32, columns_at: u32) {
    if (member < WEIGHT_BLOCKS) {
        let at = weights_at + member % (STEP / 4u) * 4u * ROW_QUADS + member / (STEP / 4u);
        quads[at] = fetched.weights[0];
        quads[at + ROW_QUADS] = fetched.weights[1];
        quads[at + 2u * ROW_QUADS] = fetched.weights[2];
        quads[at + 3u * ROW_QUADS] = fetched.weights[3];
    }
    quads[columns_at + member] = fetched.columns0;
    if (COLUMN_LOADS > 1u) {
        quads[columns_at + member + SLICE_THREADS] = fetched.columns1;
    }
}

// The sum over k_begin <= k < k_end; loads beyond k_end give 0.
fn multiply(thread: u32, k_begin: u32, k_end: u32) {
    let slice = thread / SLICE_THREADS;
    let member = thread % SLICE_THREADS;
    let weights_at = slice * SLICE_QUADS;
    let columns_at = weights_at + WEIGHT_QUADS;
    var row0 = vec4<f32>();
    var row1 = vec4<f32>();
    var row2 = vec4<f32>();
    var row3 = vec4<f32>();

    var next = fetch(member, k_begin + slice * STEP);
    for (var k = k_begin; k < k_end; k += SLICES * STEP) {
        keep(next, member, weights_at, columns_at);
        workgroupBarrier();
        next = fetch(member, k + (SLICES + slice) * STEP);
        var a = weights_at + member / COLUMN_QUADS;
        var b = columns_at + column_quad(thread);
        for (var i = 0u; i < STEP; i += 4u) {
            let a0 = quads[a];
            let b0 = quads[b];
            let a1 = quads[a + ROW_QUADS];
            let b1 = quads[b + COLUMN_QUADS];
            let a2 = quads[a + 2u * ROW_QUADS];
            let b2 = quads[b + 2u * COLUMN_QUADS];
            let a3 = quads[a + 3u * ROW_QUADS];
            let b3 = quads[b + 3u * COLUMN_QUADS];
            row0 = fma(vec4<f32>(a0.x), b0, row0);
            row1 = fma(vec4<f32>(a0.y), b0, row1);
            row2 = fma(vec4<f32>(a0.z), b0, row2);
            row3 = fma(vec4<f32>(a0.w), b0, row3);
            row0 = fma(vec4<f32>(a1.x), b1, row0);
            row1 = fma(vec4<f32>(a1.y), b1, row1);
            row2 = fma(vec4<f32>(a1.z), b1, row2);
            row3 = fma(vec4<f32>(a1.w), b1, row3);
            row0 = fma(vec4<f32>(a2.x), b2, row0);
            row1 = fma(vec4<f32>(a2.y), b2, row1);
            row2 = fma(vec4<f32>(a2.z), b2, row2);
            row3 = fma(vec4<f32>(a2.w), b2, row3);
            row0 = fma(vec4<f32>(a3.x), b3, row0);
            row1 = fma(vec4<f32>(a3.y), b3, row1);
            row2 = fma(vec4<f32>(a3.z), b3, row2);
            row3 = fma(vec4<f32>(a3.w), b3, row3);
            a += 4u * ROW_QUADS;
            b += 4u * COLUMN_QUADS;
        }
        workgroupBarrier();
    }

    let row = member / COLUMN_QUADS * 4u;
    if (SLICES == 1u) {
        store(row, row0);
        store(row + 1u, row1);
        store(row + 2u, row2);
        store(row + 3u, row3);
        return;
    }
    let at = slice * TILE_QUADS + row * COLUMN_QUADS + column_quad(thread);
    quads[at] = row0;
    quads[at + COLUMN_QUADS] = row1;
    quads[at + 2u * COLUMN_QUADS] = row2;
    quads[at + 3u * COLUMN_QUADS] = row3;
    workgroupBarrier();
    for (var i = thread; i < TILE_QUADS; i += THREADS) {
        var sum = quads[i];
        for (var other = 1u; other < SLICES; other++) {
            sum += quads[other * TILE_QUADS + i];
        }
        store(i / COLUMN_QUADS, sum);
    }
}
