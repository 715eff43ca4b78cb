// A step of 32 k of a GEMM of bytes in tiles: words of four codes in shared memory, and the exact sums of their products
// in registers. Goes with lib/bytes.wgsl.

const K_STEP = 32u;
const WORDS = K_STEP / 4u;
const ROW_QUADS = ${ROW_QUADS}u;
const COLUMN_QUADS = ${COLUMN_QUADS}u;
const THREADS_M = ${THREADS_M}u; // multiples of 8
const THREADS_N = ${THREADS_N}u;
const THREADS = THREADS_M * THREADS_N;
const A_QUADS = THREADS_M * ROW_QUADS;
const B_QUADS = THREADS_N * COLUMN_QUADS;

// A word of four rows or columns each. Lines are a quad longer, so that neighbouring words use different memory banks.
var<workgroup> a_tile: array<array<vec4<u32>, A_QUADS + 1u>, WORDS>;
var<workgroup> b_tile: array<array<vec4<u32>, B_QUADS + 1u>, WORDS>;

// Invocations in groups of 4 x 8, as in lib/gemm/gemm_tile.wgsl.
fn row_quad_of(thread: u32) -> u32 {
    return thread % 2u + thread / 16u % 2u * 2u + thread / (4u * THREADS_N) * 4u;
}
fn column_quad_of(thread: u32) -> u32 { return thread / 2u % 8u + thread / 32u % (THREADS_N / 8u) * 8u; }

// 4 x 4 sums of products.
struct IntBlock {
    k0: vec4<i32>,
    k1: vec4<i32>,
    k2: vec4<i32>,
    k3: vec4<i32>,
}

// Those of an invocation: up to 2 x 2 quads of rows and columns. Not an array, which some compilers would keep in memory.
struct IntSums {
    s00: IntBlock,
    s01: IntBlock,
    s10: IntBlock,
    s11: IntBlock,
}

fn add_products(sums: IntBlock, a: vec4<u32>, b: vec4<u32>) -> IntBlock {
    return IntBlock(sums.k0 + dots(b, a.x), sums.k1 + dots(b, a.y), sums.k2 + dots(b, a.z), sums.k3 + dots(b, a.w));
}

fn add_word(sums: ptr<function, IntSums>, row_quad: u32, column_quad: u32, word: u32) {
    let a0 = a_tile[word][row_quad];
    let b0 = b_tile[word][column_quad];
    var a1 = vec4<u32>();
    var b1 = vec4<u32>();
    if (ROW_QUADS == 2u) {
        a1 = a_tile[word][row_quad + THREADS_M];
    }
    if (COLUMN_QUADS == 2u) {
        b1 = b_tile[word][column_quad + THREADS_N];
    }
    (*sums).s00 = add_products((*sums).s00, a0, b0);
    if (COLUMN_QUADS == 2u) {
        (*sums).s01 = add_products((*sums).s01, a0, b1);
    }
    if (ROW_QUADS == 2u) {
        (*sums).s10 = add_products((*sums).s10, a1, b0);
    }
    if (ROW_QUADS * COLUMN_QUADS == 4u) {
        (*sums).s11 = add_products((*sums).s11, a1, b1);
    }
}

// Unrolled, for constant indices.
fn products_of_step(row_quad: u32, column_quad: u32) -> IntSums {
    var sums = IntSums();
    add_word(&sums, row_quad, column_quad, 0u);
    add_word(&sums, row_quad, column_quad, 1u);
    add_word(&sums, row_quad, column_quad, 2u);
    add_word(&sums, row_quad, column_quad, 3u);
    add_word(&sums, row_quad, column_quad, 4u);
    add_word(&sums, row_quad, column_quad, 5u);
    add_word(&sums, row_quad, column_quad, 6u);
    add_word(&sums, row_quad, column_quad, 7u);
    return sums;
}
