// Loads and stores between shared memory and matrices. Goes with lib/matrix/subgroup_matrix.wgsl and lib/matrix/subgroup_matrix_tile.wgsl.
//
// `pairs` are pairs of blocks of 16 lines: LINE units of eight f16 for 16 numbers to be multiplied, SUMS_LINE units of four f32 for 16 sums. Places
// within a pair are constant: browsers omit a bounds check only for such.

fn first_left(pair: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&pairs[pair], 0u, LINE); }
fn second_left(pair: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&pairs[pair], BLOCK, LINE); }
fn first_right(pair: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&pairs[pair], 0u, LINE); }
fn second_right(pair: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&pairs[pair], BLOCK, LINE); }

fn plus_product(sums: Sums, left: Left, right: Right) -> Sums {
    return subgroupMatrixMultiplyAccumulate(left, right, sums);
}

// A matrix that is multiplied when other numbers are in its memory.
alias KeptLeft = Left;

fn kept(left: Left) -> KeptLeft { return left; }
fn plus_kept(sums: Sums, left: KeptLeft, right: Right) -> Sums { return plus_product(sums, left, right); }

fn store_sums(sums: Sums, pair: u32) {
    subgroupMatrixStore<row_major>(&pairs[pair], 0u, sums, SUMS_LINE);
}
