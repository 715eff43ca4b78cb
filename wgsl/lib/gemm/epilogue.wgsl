// The plain epilogue: alpha * sums + beta * addend. Goes with lib/gemm/gemm.wgsl; the kernel declares `addend`,
// an array of Stored.

// Writes four columns of one row, except those outside of the matrix.
fn write_quad(part: Part, row: u32, column: u32, sums: Quad) {
    let gemm = params.gemm;
    if (row >= gemm.m) {
        return;
    }
    for (var i = 0u; i < 4u; i++) {
        if (column + i < gemm.n) {
            let added = Number(addend[row * gemm.addend_row + (column + i) * gemm.addend_column]);
            output[part.output + row * gemm.n + column + i] = Out(gemm.alpha * sums[i] + gemm.beta * added);
        }
    }
}
