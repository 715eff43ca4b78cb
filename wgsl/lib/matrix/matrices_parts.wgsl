// Matrices of 16 x 16, made of the smaller ones that a device multiplies at once: M x K by K x N, each 8 or 16. Goes with
// lib/matrix/subgroup_matrix.wgsl in place of lib/matrix/matrices_whole.wgsl, which says what `pairs` are.

const ROW_PARTS = 16u / ${MATRIX_M}u;
const COLUMN_PARTS = 16u / ${MATRIX_N}u;
const K_PARTS = 16u / ${MATRIX_K}u;
// Places of the second parts: the eighth line after the first, and the second unit, eight k. Compilers check places that are never used.
const SECOND_ROW = (ROW_PARTS - 1u) * 8u;
const SECOND_COLUMN = (COLUMN_PARTS - 1u) * 8u;
const SECOND_K = K_PARTS - 1u;

alias LeftPart = subgroup_matrix_left<f16, ${MATRIX_K}, ${MATRIX_M}>;
alias RightPart = subgroup_matrix_right<f16, ${MATRIX_N}, ${MATRIX_K}>;
alias SumPart = subgroup_matrix_result<f32, ${MATRIX_N}, ${MATRIX_M}>;

// Parts by lines (rows of A, columns of B), then by k.
struct FragmentA {
    p00: LeftPart,
    p01: LeftPart,
    p10: LeftPart,
    p11: LeftPart,
}

struct FragmentB {
    p00: RightPart,
    p01: RightPart,
    p10: RightPart,
    p11: RightPart,
}

// Parts by rows, then by columns.
struct Accumulator {
    p00: SumPart,
    p01: SumPart,
    p10: SumPart,
    p11: SumPart,
}

fn load_first_a(pair: u32) -> FragmentA {
    var found: FragmentA;
    found.p00 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], 0u, LINE);
    if (K_PARTS == 2u) {
        found.p01 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], SECOND_K, LINE);
    }
    if (ROW_PARTS == 2u) {
        found.p10 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], SECOND_ROW * LINE, LINE);
    }
    if (ROW_PARTS == 2u && K_PARTS == 2u) {
        found.p11 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], SECOND_ROW * LINE + SECOND_K, LINE);
    }
    return found;
}

fn load_first_b(pair: u32) -> FragmentB {
    var found: FragmentB;
    found.p00 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], 0u, LINE);
    if (K_PARTS == 2u) {
        found.p01 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], SECOND_K, LINE);
    }
    if (COLUMN_PARTS == 2u) {
        found.p10 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], SECOND_COLUMN * LINE, LINE);
    }
    if (COLUMN_PARTS == 2u && K_PARTS == 2u) {
        found.p11 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], SECOND_COLUMN * LINE + SECOND_K, LINE);
    }
    return found;
}

fn load_second_a(pair: u32) -> FragmentA {
    var found: FragmentA;
    found.p00 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], BLOCK, LINE);
    if (K_PARTS == 2u) {
        found.p01 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], BLOCK + SECOND_K, LINE);
    }
    if (ROW_PARTS == 2u) {
        found.p10 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], BLOCK + SECOND_ROW * LINE, LINE);
    }
    if (ROW_PARTS == 2u && K_PARTS == 2u) {
        found.p11 = subgroupMatrixLoad<LeftPart, row_major>(&pairs[pair], BLOCK + SECOND_ROW * LINE + SECOND_K, LINE);
    }
    return found;
}

fn load_second_b(pair: u32) -> FragmentB {
    var found: FragmentB;
    found.p00 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], BLOCK, LINE);
    if (K_PARTS == 2u) {
        found.p01 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], BLOCK + SECOND_K, LINE);
    }
    if (COLUMN_PARTS == 2u) {
        found.p10 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], BLOCK + SECOND_COLUMN * LINE, LINE);
    }
    if (COLUMN_PARTS == 2u && K_PARTS == 2u) {
        found.p11 = subgroupMatrixLoad<RightPart, col_major>(&pairs[pair], BLOCK + SECOND_COLUMN * LINE + SECOND_K, LINE);
    }
    return found;
}

fn mma(sums: Accumulator, left: FragmentA, right: FragmentB) -> Accumulator {
    var found = sums;
    found.p00 = subgroupMatrixMultiplyAccumulate(left.p00, right.p00, found.p00);
    if (K_PARTS == 2u) {
        found.p00 = subgroupMatrixMultiplyAccumulate(left.p01, right.p01, found.p00);
    }
    if (COLUMN_PARTS == 2u) {
        found.p01 = subgroupMatrixMultiplyAccumulate(left.p00, right.p10, found.p01);
        if (K_PARTS == 2u) {
            found.p01 = subgroupMatrixMultiplyAccumulate(left.p01, right.p11, found.p01);
        }
    }
    if (ROW_PARTS == 2u) {
        found.p10 = subgroupMatrixMultiplyAccumulate(left.p10, right.p00, found.p10);
        if (K_PARTS == 2u) {
            found.p10 = subgroupMatrixMultiplyAccumulate(left.p11, right.p01, found.p10);
        }
    }
    if (ROW_PARTS == 2u && COLUMN_PARTS == 2u) {
        found.p11 = subgroupMatrixMultiplyAccumulate(left.p10, right.p10, found.p11);
        if (K_PARTS == 2u) {
            found.p11 = subgroupMatrixMultiplyAccumulate(left.p11, right.p11, found.p11);
        }
    }
    return found;
}

// A fragment of A that outlives its copy in shared memory.
alias RegisterA = FragmentA;

fn to_registers(left: FragmentA) -> RegisterA { return left; }
fn mma_registers(sums: Accumulator, left: RegisterA, right: FragmentB) -> Accumulator { return mma(sums, left, right); }

fn store_sums(sums: Accumulator, pair: u32) {
    subgroupMatrixStore<row_major>(&pairs[pair], 0u, sums.p00, SUMS_LINE);
    if (COLUMN_PARTS == 2u) {
        subgroupMatrixStore<row_major>(&pairs[pair], SECOND_COLUMN / 4u, sums.p01, SUMS_LINE);
    }
    if (ROW_PARTS == 2u) {
        subgroupMatrixStore<row_major>(&pairs[pair], SECOND_ROW * SUMS_LINE, sums.p10, SUMS_LINE);
    }
    if (ROW_PARTS == 2u && COLUMN_PARTS == 2u) {
        subgroupMatrixStore<row_major>(&pairs[pair], SECOND_ROW * SUMS_LINE + SECOND_COLUMN / 4u, sums.p11, SUMS_LINE);
    }
}
