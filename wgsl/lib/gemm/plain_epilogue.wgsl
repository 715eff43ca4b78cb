// The plain epilogue: alpha * sums + beta * addend. Goes with lib/gemm/gemm.wgsl; the kernel declares `addend`,
// an array of Stored.

// Writes four rows of one column, except those outside of the matrix. All addends are read first.
fn write_column(part: Part, row: u32, column: u32, sums: Quad) {
    let gemm = params.gemm;
    if (column >= gemm.n) {
        return;
    }
    var results = gemm.alpha * sums;
    if (gemm.beta != Number(0)) {
        let first = row * gemm.addend_row + column * gemm.addend_column;
        let places = vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u) * gemm.addend_row;
        results += gemm.beta * Quad(
            Number(addend[places.x]),
            Number(addend[places.y]),
            Number(addend[places.z]),
            Number(addend[places.w]),
        );
    }
    let at = part.output + row * gemm.n + column;
    for (var i = 0u; i < 4u; i++) {
        if (row + i < gemm.m) {
            output[at + i * gemm.n] = Out(results[i]);
        }
    }
}

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
