// Splits rows of numbers into f16, two for each number, with an exponent per row, for
// lib/gemm/subgroup_matrix_tile.wgsl. A workgroup takes one row. Goes with lib/gemm/f16_scaling.wgsl and lib/gemm/gemm.wgsl; the kernel declares `split_f16` and
// `exponents`, and supplies
//     fn row_quad(row: u32, k: u32) -> vec4<f32>   zeros outside of the matrix

const K_STEP = 16u; // of lib/gemm/subgroup_matrix_tile.wgsl: rows are filled up to a multiple of it
const THREADS = 128u;

var<workgroup> largest: atomic<u32>; // its bits; those of numbers of one sign are in order

fn split_row(thread: u32, row: u32) {
    let quads = (params.gemm.k + K_STEP - 1u) / K_STEP * K_STEP / 4u;
    var size = 0u;
    for (var quad = thread; quad < quads; quad += THREADS) {
        size = max(size, size_of(row_quad(row, quad * 4u)));
    }
    atomicMax(&largest, size);
    workgroupBarrier();
    let exponent = exponent_of(atomicLoad(&largest), LARGEST);
    if (thread == 0u) {
        exponents[row] = exponent;
    }
    let scale = power_of(select(-exponent, 0, exponent == NOT_FINITE));
    for (var quad = thread; quad < quads; quad += THREADS) {
        split_f16[row * quads + quad] = pair_of(row_quad(row, quad * 4u) * scale);
    }
}
