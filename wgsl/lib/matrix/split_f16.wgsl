// Splits rows of numbers into f16, one or two for each number, with an exponent per row, for
// lib/matrix/subgroup_matrix_tile.wgsl. A workgroup takes one row. Goes with lib/matrix/f16_scaling.wgsl and lib/gemm/gemm.wgsl; the kernel
// declares `split_f16` and `exponents`, and supplies
//     fn row_quad(row: u32, k: u32) -> vec4<f32>   zeros outside of the matrix

const K_FILL = 32u; // rows are filled up to a multiple of it: the longest step of lib/matrix/subgroup_matrix_tile.wgsl
const PARTS = ${PARTS}u; // f16 of a number
const THREADS = 128u;

var<workgroup> largest: atomic<u32>; // its bits; those of numbers of one sign are in order

fn split_row(thread: u32, row: u32) {
    let units = (params.gemm.k + K_FILL - 1u) / K_FILL * (K_FILL / 8u);
    var size = 0u;
    for (var quad = thread; quad < 2u * units; quad += THREADS) {
        size = max(size, absmax_bits(row_quad(row, quad * 4u)));
    }
    atomicMax(&largest, size);
    workgroupBarrier();
    let exponent = exponent_of(atomicLoad(&largest), LARGEST);
    if (thread == 0u) {
        exponents[row] = exponent;
    }
    let scale = power_of_two(select(-exponent, 0, exponent == NOT_FINITE));
    for (var at = thread; at < units; at += THREADS) {
        let unit = split_unit(row_quad(row, at * 8u) * scale, row_quad(row, at * 8u + 4u) * scale);
        split_f16[(row * units + at) * PARTS] = unit.high;
        if (PARTS == 2u) {
            split_f16[(row * units + at) * PARTS + 1u] = unit.low;
        }
    }
}
