// A matrix product in tiles: a workgroup keeps K_STEP rows of both operands in shared memory, and
// each invocation ROW_QUADS x COLUMN_QUADS blocks of 4x4 sums in registers.
//
// A kernel that uses this file (and lib/product.wgsl) supplies
//     fn a_block(part: Part, row: u32, k: u32) -> Block      zeros outside of the matrix
//     fn b_block(part: Part, column: u32, k: u32) -> Block
//     A_K_FIRST, B_K_FIRST: bool                             whether neighbours in memory differ in k

const K_STEP = 16u;
const STEPS = K_STEP / 4u;
const ROW_QUADS = ${ROW_QUADS}u;
const COLUMN_QUADS = ${COLUMN_QUADS}u;
const THREADS_M = ${THREADS_M}u; // multiples of 8
const THREADS_N = ${THREADS_N}u;
const THREADS = THREADS_M * THREADS_N;
const A_QUADS = THREADS_M * ROW_QUADS;
const B_QUADS = THREADS_N * COLUMN_QUADS;
const A_BLOCKS = A_QUADS * STEPS;
const BLOCKS = A_BLOCKS + B_QUADS * STEPS;
const BLOCKS_EACH = (BLOCKS + THREADS - 1u) / THREADS;

var<workgroup> a_tile: array<Quad, A_QUADS * K_STEP>;
var<workgroup> b_tile: array<Quad, B_QUADS * K_STEP>;

// Which block of a tile the index-th one is: (quad of rows or columns, step along k). Neighbouring
// invocations read neighbouring memory.
fn place_of(index: u32, quads: u32, k_first: bool) -> vec2<u32> {
    return select(vec2<u32>(index % quads, index / quads), vec2<u32>(index / STEPS, index % STEPS), k_first);
}

// Each step along k has its quads in another order, so that neither blocks that are stored at once
// nor quads that are read at once meet in a memory bank.
fn shuffled(quad: u32, step: u32) -> u32 {
    return quad ^ (step * 2u);
}

fn fetch_block(part: Part, index: u32, k: u32) -> Block {
    if (index < A_BLOCKS) {
        let place = place_of(index, A_QUADS, A_K_FIRST);
        return a_block(part, part.row + place.x * 4u, k + place.y * 4u);
    }
    let place = place_of(index - A_BLOCKS, B_QUADS, B_K_FIRST);
    return b_block(part, part.column + place.x * 4u, k + place.y * 4u);
}

fn store_block(index: u32, block: Block) {
    if (index < A_BLOCKS) {
        let place = place_of(index, A_QUADS, A_K_FIRST);
        let at = place.y * 4u * A_QUADS + shuffled(place.x, place.y);
        a_tile[at] = block.k0;
        a_tile[at + A_QUADS] = block.k1;
        a_tile[at + 2u * A_QUADS] = block.k2;
        a_tile[at + 3u * A_QUADS] = block.k3;
    } else if (index < BLOCKS) {
        let place = place_of(index - A_BLOCKS, B_QUADS, B_K_FIRST);
        let at = place.y * 4u * B_QUADS + shuffled(place.x, place.y);
        b_tile[at] = block.k0;
        b_tile[at + B_QUADS] = block.k1;
        b_tile[at + 2u * B_QUADS] = block.k2;
        b_tile[at + 3u * B_QUADS] = block.k3;
    }
}

// Invocations in groups of 4 x 8: the 32 that usually run together then read few different quads.
fn row_quad_of(thread: u32) -> u32 { return thread / 8u % 4u + thread / (4u * THREADS_N) * 4u; }
fn column_quad_of(thread: u32) -> u32 { return thread % 8u + thread / 32u % (THREADS_N / 8u) * 8u; }

fn multiply_tiles(part: Part, thread: u32) {
    let row_quad = row_quad_of(thread);
    let column_quad = column_quad_of(thread);
    var sums: array<array<Quad, COLUMN_QUADS>, 4u * ROW_QUADS>;
    var fetched: array<Block, BLOCKS_EACH>;
    for (var i = 0u; i < BLOCKS_EACH; i++) {
        fetched[i] = fetch_block(part, thread + i * THREADS, part.k_begin);
    }
    for (var k = part.k_begin; k < part.k_end; k += K_STEP) {
        for (var i = 0u; i < BLOCKS_EACH; i++) {
            store_block(thread + i * THREADS, fetched[i]);
        }
        workgroupBarrier();
        // The next tiles are on their way while these are multiplied.
        if (k + K_STEP < part.k_end) {
            for (var i = 0u; i < BLOCKS_EACH; i++) {
                fetched[i] = fetch_block(part, thread + i * THREADS, k + K_STEP);
            }
        }
        for (var step = 0u; step < STEPS; step++) {
            let a_first = shuffled(row_quad, step);
            let b_first = shuffled(column_quad, step);
            for (var j = step * 4u; j < step * 4u + 4u; j++) {
                var b: array<Quad, COLUMN_QUADS>;
                for (var c = 0u; c < COLUMN_QUADS; c++) {
                    b[c] = b_tile[j * B_QUADS + b_first + c * THREADS_N];
                }
                for (var r = 0u; r < ROW_QUADS; r++) {
                    let a = a_tile[j * A_QUADS + a_first + r * THREADS_M];
                    for (var c = 0u; c < COLUMN_QUADS; c++) {
                        sums[r * 4u][c] += a.x * b[c];
                        sums[r * 4u + 1u][c] += a.y * b[c];
                        sums[r * 4u + 2u][c] += a.z * b[c];
                        sums[r * 4u + 3u][c] += a.w * b[c];
                    }
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < 4u * ROW_QUADS; r++) {
        let row = part.row + (row_quad + r / 4u * THREADS_M) * 4u + r % 4u;
        for (var c = 0u; c < COLUMN_QUADS; c++) {
            write_quad(part, row, part.column + (column_quad + c * THREADS_N) * 4u, sums[r][c]);
        }
    }
}
