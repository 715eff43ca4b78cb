// Writes the sums of joined weights as they are, for gemm_split_k_sum_qkv.wgsl. Goes with lib/matrix/write_sums.wgsl.

// use lib/matrix/write_sums.wgsl

// Columns are whole tiles.
fn write_column(part: Part, row: u32, column: u32, sums: Quad) {
    let at = part.output + row * params.gemm.n + column;
    for (var i = 0u; i < 4u; i++) {
        if (row + i < params.gemm.m) {
            output[at + i * params.gemm.n] = sums[i];
        }
    }
}
