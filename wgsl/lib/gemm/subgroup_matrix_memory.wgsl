// Loads and stores between shared memory and matrices. Goes with lib/gemm/subgroup_matrix.wgsl and lib/gemm/subgroup_matrix_tile.wgsl.
//
// One function per offset: browsers omit a bounds check only for constant indices. `band` is the row or column of subgroups.

const A1 = 16u * LINE;
const A2 = min(2u, ROW_MATRICES - 1u) * 16u * LINE;
const A3 = min(3u, ROW_MATRICES - 1u) * 16u * LINE;
const A_LOW1 = min(1u, A_LOWS - 1u) * 16u * LINE;
const A_LOW2 = min(2u, A_LOWS - 1u) * 16u * LINE;
const A_LOW3 = min(3u, A_LOWS - 1u) * 16u * LINE;
const B1 = 16u * LINE;
const B2 = min(2u, COLUMN_MATRICES - 1u) * 16u * LINE;
const B3 = min(3u, COLUMN_MATRICES - 1u) * 16u * LINE;
const B_LOW1 = min(1u, B_LOWS - 1u) * 16u * LINE;
const B_LOW2 = min(2u, B_LOWS - 1u) * 16u * LINE;
const B_LOW3 = min(3u, B_LOWS - 1u) * 16u * LINE;

fn high_left0(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_high[band], 0u, LINE); }
fn high_left1(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_high[band], A1, LINE); }
fn high_left2(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_high[band], A2, LINE); }
fn high_left3(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_high[band], A3, LINE); }

fn low_left0(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_low[band], 0u, LINE); }
fn low_left1(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_low[band], A_LOW1, LINE); }
fn low_left2(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_low[band], A_LOW2, LINE); }
fn low_left3(band: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&a_low[band], A_LOW3, LINE); }

fn high_right0(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_high[band], 0u, LINE); }
fn high_right1(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_high[band], B1, LINE); }
fn high_right2(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_high[band], B2, LINE); }
fn high_right3(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_high[band], B3, LINE); }

fn low_right0(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_low[band], 0u, LINE); }
fn low_right1(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_low[band], B_LOW1, LINE); }
fn low_right2(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_low[band], B_LOW2, LINE); }
fn low_right3(band: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&b_low[band], B_LOW3, LINE); }

fn plus_product(sums: Sums, left: Left, right: Right) -> Sums {
    return subgroupMatrixMultiplyAccumulate(left, right, sums);
}

fn store_sums(sums: Sums, subgroup: u32) {
    subgroupMatrixStore<row_major>(&patches[subgroup], 0u, sums, 4u);
}
