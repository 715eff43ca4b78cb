// Linear layers with weights of 4 or 8 bits and many rows, in integers: x is codes of 8 bits, from linear_q4_codes.wgsl.
// The products of 32 k are added up exactly, and scaled once.

// use lib/quads.wgsl
// use lib/bytes.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/plain_epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/int8_step.wgsl

override BLOCKS: bool; // as in linear_q4_codes.wgsl

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
}

@group(0) @binding(0) var<storage, read> codes: array<u32>;
@group(0) @binding(1) var<storage, read> numbers: array<f32>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> addend: array<Stored>;
@group(0) @binding(5) var<storage, read_write> output: array<Out>;
@group(0) @binding(6) var<uniform> params: Params;

const WEIGHT_WORDS = ${WEIGHT_WORDS}u; // of a column in a step: WORDS, or half as many for weights of 4 bits
const BYTE_WEIGHTS = WEIGHT_WORDS == WORDS; // only with BLOCKS
const WORD_VALUES = K_STEP / WEIGHT_WORDS;
const A_ITEMS = A_QUADS * WORDS; // words of four rows
const B_ITEMS = B_QUADS * WEIGHT_WORDS; // words of four columns
const A_LOADS = (A_ITEMS + THREADS - 1u) / THREADS;
const B_LOADS = (B_ITEMS + THREADS - 1u) / THREADS;

// The scales of each step: of the columns, and with BLOCKS of the rows.
var<workgroup> column_scales: array<Quad, B_QUADS>;
var<workgroup> row_scales: array<Quad, A_QUADS>;
// Sums of the weights of each column, in parts; x's zero is multiplied with them.
var<workgroup> weight_sums: array<Quad, select(B_ITEMS, 1u, BYTE_WEIGHTS)>;

struct Fetched {
    a0: vec4<u32>,
    a1: vec4<u32>,
    b0: vec4<u32>,
    b1: vec4<u32>,
    column_scale: Quad,
    row_scale: Quad,
}

// Neighbours read neighbouring words of a row.
fn fetch_a(part: Part, item: u32, k: u32) -> vec4<u32> {
    let length = params.gemm.k / 4u;
    let at = (part.row + item / WORDS * 4u) * length + k / 4u + item % WORDS;
    return vec4<u32>(codes[at], codes[at + length], codes[at + 2u * length], codes[at + 3u * length]);
}

fn fetch_b(part: Part, item: u32, k: u32) -> vec4<u32> {
    return words_of(part.column + item / WEIGHT_WORDS * 4u, k + item % WEIGHT_WORDS * WORD_VALUES);
}

fn number_of(row: u32, k: u32) -> f32 {
    return numbers[row * (params.gemm.k / 32u) + k / 32u];
}

fn fetch(part: Part, thread: u32, k: u32) -> Fetched {
    var found = Fetched();
    if (thread < A_ITEMS) {
        found.a0 = fetch_a(part, thread, k);
    }
    if (A_LOADS == 2u) {
        found.a1 = fetch_a(part, thread + THREADS, k);
    }
    if (thread < B_ITEMS) {
        found.b0 = fetch_b(part, thread, k);
    }
    if (B_LOADS == 2u) {
        found.b1 = fetch_b(part, thread + THREADS, k);
    }
    if (BYTE_WEIGHTS && thread < B_QUADS) {
        found.column_scale = scales_of(part.column + thread * 4u, k);
    } else if (!BYTE_WEIGHTS && thread < B_ITEMS) {
        found.column_scale = scales_of(part.column + thread / WEIGHT_WORDS * 4u, k);
    }
    if (BLOCKS && thread < A_QUADS) {
        let row = part.row + thread * 4u;
        found.row_scale = Quad(number_of(row, k), number_of(row + 1u, k), number_of(row + 2u, k), number_of(row + 3u, k));
    }
    return found;
}

// Codes are 8 too large: nibbles as signed bytes.
fn signed_nibbles(nibbles: vec4<u32>) -> vec4<u32> {
    return ((nibbles & vec4<u32>(0x0f0f0f0fu)) + vec4<u32>(0x78787878u)) ^ vec4<u32>(0x80808080u);
}

fn store_bytes(thread: u32, found: Fetched) {
    if (thread < B_ITEMS) {
        b_tile[thread % WORDS][thread / WORDS] = found.b0;
    }
    if (B_LOADS == 2u) {
        b_tile[thread % WORDS][(thread + THREADS) / WORDS] = found.b1;
    }
    if (thread < B_QUADS) {
        column_scales[thread] = found.column_scale;
    }
}

// Stores what was fetched, and returns the sums of its weights.
fn store(thread: u32, found: Fetched) -> Quad {
    var sums = Quad();
    if (thread < A_ITEMS) {
        a_tile[thread % WORDS][thread / WORDS] = found.a0;
    }
    if (A_LOADS == 2u) {
        a_tile[thread % WORDS][(thread + THREADS) / WORDS] = found.a1;
    }
    if (BYTE_WEIGHTS) {
        store_bytes(thread, found);
    } else if (thread < B_ITEMS) {
        let word = thread % WEIGHT_WORDS;
        let quad = thread / WEIGHT_WORDS;
        let low = signed_nibbles(found.b0);
        let high = signed_nibbles(found.b0 >> vec4<u32>(4u));
        b_tile[2u * word][quad] = low;
        b_tile[2u * word + 1u][quad] = high;
        if (word == 0u) {
            column_scales[quad] = found.column_scale;
        }
        if (!BLOCKS) {
            sums = Quad(dots(low, ONES) + dots(high, ONES)) * found.column_scale;
        }
    }
    if (BLOCKS && thread < A_QUADS) {
        row_scales[thread] = found.row_scale;
    }
    return sums;
}

fn scaled_row(sums: Quad, products: vec4<i32>, scale: Quad, of_row: f32) -> Quad {
    return fma(Quad(products), select(scale, scale * of_row, BLOCKS), sums);
}

fn scaled(sums: Block, products: IntBlock, scale: Quad, of_rows: Quad) -> Block {
    return Block(
        scaled_row(sums.k0, products.k0, scale, of_rows.x),
        scaled_row(sums.k1, products.k1, scale, of_rows.y),
        scaled_row(sums.k2, products.k2, scale, of_rows.z),
        scaled_row(sums.k3, products.k3, scale, of_rows.w),
    );
}

struct Sums {
    s00: Block,
    s01: Block,
    s10: Block,
    s11: Block,
}

fn add_step(sums: ptr<function, Sums>, row_quad: u32, column_quad: u32) {
    let products = products_of_step(row_quad, column_quad);
    let scale = column_scales[column_quad];
    var of_rows = Quad();
    if (BLOCKS) {
        of_rows = row_scales[row_quad];
    }
    (*sums).s00 = scaled((*sums).s00, products.s00, scale, of_rows);
    var second = Quad();
    if (COLUMN_QUADS == 2u) {
        second = column_scales[column_quad + THREADS_N];
        (*sums).s01 = scaled((*sums).s01, products.s01, second, of_rows);
    }
    if (ROW_QUADS == 2u) {
        if (BLOCKS) {
            of_rows = row_scales[row_quad + THREADS_M];
        }
        (*sums).s10 = scaled((*sums).s10, products.s10, scale, of_rows);
    }
    if (ROW_QUADS * COLUMN_QUADS == 4u) {
        (*sums).s11 = scaled((*sums).s11, products.s11, second, of_rows);
    }
}

fn weights_of(column_quad: u32) -> Quad {
    var sum = Quad();
    if (BLOCKS) {
        return sum; // x has no zero
    }
    for (var i = 0u; i < WEIGHT_WORDS; i++) {
        sum += weight_sums[column_quad * WEIGHT_WORDS + i];
    }
    return sum;
}

fn write_row(part: Part, row: u32, column: u32, sums: Quad, of_weights: Quad) {
    if (BLOCKS) {
        write_quad(part, row, column, sums);
    } else if (row < params.gemm.m) {
        write_quad(part, row, column, (sums - numbers[2u * row + 1u] * of_weights) * numbers[2u * row]);
    }
}

fn write_block(part: Part, row_quad: u32, column_quad: u32, sums: Block) {
    let row = part.row + row_quad * 4u;
    let column = part.column + column_quad * 4u;
    let of_weights = weights_of(column_quad);
    write_row(part, row, column, sums.k0, of_weights);
    write_row(part, row + 1u, column, sums.k1, of_weights);
    write_row(part, row + 2u, column, sums.k2, of_weights);
    write_row(part, row + 3u, column, sums.k3, of_weights);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, A_QUADS * 4u, B_QUADS * 4u);
    if (!part.exists) {
        return;
    }
    let row_quad = row_quad_of(thread);
    let column_quad = column_quad_of(thread);
    var sums: Sums;
    var of_weights = Quad();
    var fetched = fetch(part, thread, part.k_begin);
    for (var k = part.k_begin; k < part.k_end; k += K_STEP) {
        of_weights += store(thread, fetched);
        workgroupBarrier();
        if (k + K_STEP < part.k_end) {
            fetched = fetch(part, thread, k + K_STEP);
        }
        add_step(&sums, row_quad, column_quad);
        workgroupBarrier();
    }
    if (!BLOCKS && thread < B_ITEMS) {
        weight_sums[thread] = of_weights;
    }
    workgroupBarrier();
    write_block(part, row_quad, column_quad, sums.s00);
    if (COLUMN_QUADS == 2u) {
        write_block(part, row_quad, column_quad + THREADS_N, sums.s01);
    }
    if (ROW_QUADS == 2u) {
        write_block(part, row_quad + THREADS_M, column_quad, sums.s10);
    }
    if (ROW_QUADS * COLUMN_QUADS == 4u) {
        write_block(part, row_quad + THREADS_M, column_quad + THREADS_N, sums.s11);
    }
}
