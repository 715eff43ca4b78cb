// A GEMM in tiles: a workgroup keeps K_STEP rows of both operands in shared memory, and each invocation
// ROW_QUADS x COLUMN_QUADS blocks of 4x4 sums in registers. The next step is prefetched while one is
// multiplied.
//
// A kernel that uses this file (and lib/gemm/gemm.wgsl) supplies types ARaw and BRaw, and
//     fn fetch_a(part: Part, row: u32, k: u32) -> ARaw       as it is in memory
//     fn fetch_b(part: Part, column: u32, k: u32) -> BRaw
//     fn a_block(raw: ARaw) -> Block                         its numbers; zeros outside of the matrix
//     fn b_block(raw: BRaw, column: u32, k: u32) -> Block
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
// Each invocation loads a block of A and one of B, or only one of them.
const A_BLOCKS = A_QUADS * STEPS;
const LOADS_BOTH = A_BLOCKS + B_QUADS * STEPS > THREADS;
const FIRST_B = select(A_BLOCKS, 0u, LOADS_BOTH);

// Nested, so that the index in a line is the same for every k: browsers add a bounds check for each
// different index. Together they are the 16 KB that every GPU has.
var<workgroup> a_tile: array<array<Quad, A_QUADS>, K_STEP>;
var<workgroup> b_tile: array<array<Quad, B_QUADS>, K_STEP>;

struct Fetched {
    a: ARaw,
    b: BRaw,
}

// The place of the index-th block of a tile: (quad of rows or columns, step along k). Neighbouring
// invocations read neighbouring memory.
fn place_of(index: u32, quads: u32, k_first: bool) -> vec2<u32> {
    return select(vec2<u32>(index % quads, index / quads), vec2<u32>(index / STEPS, index % STEPS), k_first);
}

fn a_place(thread: u32) -> vec2<u32> { return place_of(thread, A_QUADS, A_K_FIRST); }
fn b_place(thread: u32) -> vec2<u32> { return place_of(thread - FIRST_B, B_QUADS, B_K_FIRST); }

fn fetch_tiles(part: Part, thread: u32, k: u32) -> Fetched {
    var fetched: Fetched;
    if (LOADS_BOTH || thread < A_BLOCKS) {
        let place = a_place(thread);
        fetched.a = fetch_a(part, part.row + place.x * 4u, k + place.y * 4u);
    }
    if (LOADS_BOTH || thread >= A_BLOCKS) {
        let place = b_place(thread);
        fetched.b = fetch_b(part, part.column + place.x * 4u, k + place.y * 4u);
    }
    return fetched;
}

fn store_tiles(part: Part, thread: u32, k: u32, fetched: Fetched) {
    if (LOADS_BOTH || thread < A_BLOCKS) {
        let place = a_place(thread);
        let block = a_block(fetched.a);
        a_tile[place.y * 4u][place.x] = block.k0;
        a_tile[place.y * 4u + 1u][place.x] = block.k1;
        a_tile[place.y * 4u + 2u][place.x] = block.k2;
        a_tile[place.y * 4u + 3u][place.x] = block.k3;
    }
    if (LOADS_BOTH || thread >= A_BLOCKS) {
        let place = b_place(thread);
        let block = b_block(fetched.b, part.column + place.x * 4u, k + place.y * 4u);
        b_tile[place.y * 4u][place.x] = block.k0;
        b_tile[place.y * 4u + 1u][place.x] = block.k1;
        b_tile[place.y * 4u + 2u][place.x] = block.k2;
        b_tile[place.y * 4u + 3u][place.x] = block.k3;
    }
}

// Invocations in groups of 4 x 8: the 32 that usually run together then read few different quads, and
// neighbours in pairs that share a column, so that half of them read all eight at once.
fn row_quad_of(thread: u32) -> u32 {
    return thread % 2u + thread / 16u % 2u * 2u + thread / (4u * THREADS_N) * 4u;
}
fn column_quad_of(thread: u32) -> u32 { return thread / 2u % 8u + thread / 32u % (THREADS_N / 8u) * 8u; }

// The sums of an invocation: up to 2 x 2 quads of rows and columns, one Block each. Not an array, which
// some compilers would keep in memory, not in registers.
struct Sums {
    s00: Block,
    s01: Block,
    s10: Block,
    s11: Block,
}

fn add_outer_product(sums: Block, a: Quad, b: Quad) -> Block {
    return Block(sums.k0 + a.x * b, sums.k1 + a.y * b, sums.k2 + a.z * b, sums.k3 + a.w * b);
}

// Adds the products of one k.
fn accumulate_k(sums: ptr<function, Sums>, row_quad: u32, column_quad: u32, k: u32) {
    let a0 = a_tile[k][row_quad];
    let b0 = b_tile[k][column_quad];
    var a1 = Quad();
    var b1 = Quad();
    if (ROW_QUADS == 2u) {
        a1 = a_tile[k][row_quad + THREADS_M];
    }
    if (COLUMN_QUADS == 2u) {
        b1 = b_tile[k][column_quad + THREADS_N];
    }
    (*sums).s00 = add_outer_product((*sums).s00, a0, b0);
    if (COLUMN_QUADS == 2u) {
        (*sums).s01 = add_outer_product((*sums).s01, a0, b1);
    }
    if (ROW_QUADS == 2u) {
        (*sums).s10 = add_outer_product((*sums).s10, a1, b0);
    }
    if (ROW_QUADS * COLUMN_QUADS == 4u) {
        (*sums).s11 = add_outer_product((*sums).s11, a1, b1);
    }
}

// Unrolled: constant indices need no arithmetic, which would be a fifth of the time.
fn accumulate_k_quad(sums: ptr<function, Sums>, row_quad: u32, column_quad: u32, step: u32) {
    accumulate_k(sums, row_quad, column_quad, step * 4u);
    accumulate_k(sums, row_quad, column_quad, step * 4u + 1u);
    accumulate_k(sums, row_quad, column_quad, step * 4u + 2u);
    accumulate_k(sums, row_quad, column_quad, step * 4u + 3u);
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
    var fetched = fetch_tiles(part, thread, part.k_begin);
    for (var k = part.k_begin; k < part.k_end; k += K_STEP) {
        store_tiles(part, thread, k, fetched);
        workgroupBarrier();
        if (k + K_STEP < part.k_end) {
            fetched = fetch_tiles(part, thread, k + K_STEP);
        }
        accumulate_k_quad(&sums, row_quad, column_quad, 0u);
        accumulate_k_quad(&sums, row_quad, column_quad, 1u);
        accumulate_k_quad(&sums, row_quad, column_quad, 2u);
        accumulate_k_quad(&sums, row_quad, column_quad, 3u);
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
