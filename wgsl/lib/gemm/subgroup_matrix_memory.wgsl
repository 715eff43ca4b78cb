// Loads and stores between shared memory and matrices. Goes with lib/gemm/subgroup_matrix.wgsl and lib/gemm/subgroup_matrix_tile.wgsl.
//
// Places within a pair of blocks are constant: browsers omit a bounds check only for such.

fn first_left(pair: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&pairs[pair], 0u, LINE); }
fn second_left(pair: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&pairs[pair], BLOCK, LINE); }
fn first_right(pair: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&pairs[pair], 0u, LINE); }
fn second_right(pair: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&pairs[pair], BLOCK, LINE); }

fn plus_product(sums: Sums, left: Left, right: Right) -> Sums {
    return subgroupMatrixMultiplyAccumulate(left, right, sums);
}

fn store_sums(sums: Sums, pair: u32) {
    subgroupMatrixStore<row_major>(&pairs[pair], 0u, sums, 4u);
}
