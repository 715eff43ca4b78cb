// Writes the sums of lib/matrix/subgroup_matrix_tile.wgsl one matrix after the other; goes with lib/gemm/plain_epilogue.wgsl.

fn write_sums(part: Part, place: Place, row: u32, column: u32, sums: Accumulator) {
    let found = lane_sums(part, place, row, column, sums);
    let first = part.row + row + lane_row(place);
    let at_column = part.column + column + lane_column(place);
    write_column(part, first, at_column, found.first);
    write_column(part, first + 4u, at_column, found.second);
}

fn write_two(part: Part, place: Place, row: u32, column: u32, left: Accumulator, right: Accumulator) {
    write_sums(part, place, row, column, left);
    write_sums(part, place, row, column + 16u, right);
}
