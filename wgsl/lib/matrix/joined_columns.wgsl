// The columns of up to three weights as those of one GEMM. The kernel has `params.matrices`: of each, its columns, its
// first one among all, and the stride from one group's scales to the next one's.

override INTERLEAVED: bool; // of two weights: 16 columns of the first, 16 of the second, and so on

struct Column {
    matrix: u32,
    row: u32, // of its weights
}

// Columns past the end of their matrix repeat its last one.
fn joined_column(column: u32) -> Column {
    var matrix = column / 16u % 2u;
    var row = column / 32u * 16u + column % 16u;
    if (!INTERLEAVED) {
        matrix = u32(column >= params.matrices[1].y) + u32(column >= params.matrices[2].y);
        row = column - params.matrices[matrix].y;
    }
    return Column(matrix, min(row, params.matrices[matrix].x - 1u));
}
