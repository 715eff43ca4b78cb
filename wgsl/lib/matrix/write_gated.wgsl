// Writes gate_of(gate) * up: of 32 columns, the first 16 are the gate's, the others those of up.

// use lib/math.wgsl

alias Vec = vec4<f32>;

fn gate_of(x: Vec) -> Vec { return ${GATE}; }

fn write_gated(row: u32, column: u32, gates: Quad, ups: Quad) {
    let columns = params.matrices[0].x;
    let results = gate_of(gates) * ups;
    for (var i = 0u; i < 4u; i++) {
        if (row + i < params.gemm.m && column < columns) {
            output[(row + i) * columns + column] = Out(results[i]);
        }
    }
}

fn write_two(part: Part, place: Place, row: u32, column: u32, left: Accumulator, right: Accumulator) {
    let gates = lane_sums(part, place, row, column, left);
    let ups = lane_sums(part, place, row, column + 16u, right);
    let first = part.row + row + lane_row(place);
    let at_column = (part.column + column) / 2u + lane_column(place);
    write_gated(first, at_column, gates.first, ups.first);
    write_gated(first + 4u, at_column, gates.second, ups.second);
}
