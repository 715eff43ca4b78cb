// From shared memory to matrices and back. Goes with lib/matrices.wgsl and lib/matrix_tiles.wgsl.

fn high_left(line: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_high, line * LINE, LINE); }
fn low_left(line: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_low, line * LINE, LINE); }
fn high_right(line: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_high, line * LINE, LINE); }
fn low_right(line: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_low, line * LINE, LINE); }

fn plus_product(sums: Sums, left: Left, right: Right) -> Sums {
    return subgroupMatrixMultiplyAccumulate(left, right, sums);
}

fn store_sums(sums: Sums, subgroup: u32) {
    subgroupMatrixStore<row_major>(&patches, subgroup * 64u, sums, 4u);
}
