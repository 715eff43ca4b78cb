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
const BLOCKS = A_BLOCKS + B_QUADS * STEPS; // at most two per invocation

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
    } else {
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

// The sums of an invocation: up to 2 x 2 quads of rows and columns, one Block each. Not an array:
// compilers that do not unroll a loop over it would keep it in memory, not in registers.
struct Sums {
    s00: Block,
    s01: Block,
    s10: Block,
    s11: Block,
}

fn plus_outer(sums: Block, a: Quad, b: Quad) -> Block {
    return Block(sums.k0 + a.x * b, sums.k1 + a.y * b, sums.k2 + a.z * b, sums.k3 + a.w * b);
}

// Adds the products of one k, whose quads start at a_at and b_at.
fn add_products(sums: ptr<function, Sums>, a_at: u32, b_at: u32) {
    let a0 = a_tile[a_at];
    let b0 = b_tile[b_at];
    var a1 = Quad();
    var b1 = Quad();
    if (ROW_QUADS == 2u) {
        a1 = a_tile[a_at + THREADS_M];
    }
    if (COLUMN_QUADS == 2u) {
        b1 = b_tile[b_at + THREADS_N];
    }
    (*sums).s00 = plus_outer((*sums).s00, a0, b0);
    if (COLUMN_QUADS == 2u) {
        (*sums).s01 = plus_outer((*sums).s01, a0, b1);
    }
    if (ROW_QUADS == 2u) {
        (*sums).s10 = plus_outer((*sums).s10, a1, b0);
    }
    if (ROW_QUADS * COLUMN_QUADS == 4u) {
        (*sums).s11 = plus_outer((*sums).s11, a1, b1);
    }
}

// Written out, not a loop: constant places cost no arithmetic, which is a fifth of the time here.
fn add_step(sums: ptr<function, Sums>, row_quad: u32, column_quad: u32, step: u32) {
    let a_at = step * 4u * A_QUADS + shuffled(row_quad, step);
    let b_at = step * 4u * B_QUADS + shuffled(column_quad, step);
    add_products(sums, a_at, b_at);
    add_products(sums, a_at + A_QUADS, b_at + B_QUADS);
    add_products(sums, a_at + 2u * A_QUADS, b_at + 2u * B_QUADS);
    add_products(sums, a_at + 3u * A_QUADS, b_at + 3u * B_QUADS);
}

// All reads are on their way before the first is waited for.
fn load_tiles(part: Part, thread: u32, k: u32) {
    var first: Block;
    var second: Block;
    if (thread < BLOCKS) {
        first = fetch_block(part, thread, k);
    }
    if (thread + THREADS < BLOCKS) {
        second = fetch_block(part, thread + THREADS, k);
    }
    if (thread < BLOCKS) {
        store_block(thread, first);
    }
    if (thread + THREADS < BLOCKS) {
        store_block(thread + THREADS, second);
    }
}

fn write_block(part: Part, row: u32, column: u32, block: Block) {
    write_quad(part, row, column, block.k0);
    write_quad(part, row + 1u, column, block.k1);
    write_quad(part, row + 2u, column, block.k2);
    write_quad(part, row + 3u, column, block.k3);
}

fn multiply_tiles(part: Part, thread: u32) {
    let row_quad = row_quad_of(thread);
    let column_quad = column_quad_of(thread);
    var sums: Sums;
    for (var k = part.k_begin; k < part.k_end; k += K_STEP) {
        load_tiles(part, thread, k);
        workgroupBarrier();
        add_step(&sums, row_quad, column_quad, 0u);
        add_step(&sums, row_quad, column_quad, 1u);
        add_step(&sums, row_quad, column_quad, 2u);
        add_step(&sums, row_quad, column_quad, 3u);
        workgroupBarrier();
    }
    let row = part.row + row_quad * 4u;
    let column = part.column + column_quad * 4u;
    write_block(part, row, column, sums.s00);
    if (COLUMN_QUADS == 2u) {
        write_block(part, row, column + THREADS_N * 4u, sums.s01);
    }
    if (ROW_QUADS == 2u) {
        write_block(part, row + THREADS_M * 4u, column, sums.s10);
    }
    if (ROW_QUADS * COLUMN_QUADS == 4u) {
        write_block(part, row + THREADS_M * 4u, column + THREADS_N * 4u, sums.s11);
    }
}
