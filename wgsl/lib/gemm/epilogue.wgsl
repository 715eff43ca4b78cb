// How most products end: alpha * sums + beta * addend. Goes with lib/gemm/gemm.wgsl; the kernel declares
// `addend`, an array of Stored.

// Four columns of one row; what lies outside of the matrix is dropped.
fn write_quad(part: Part, row: u32, column: u32, sums: Quad) {
    let product = params.product;
    if (row >= product.m) {
        return;
    }
    for (var i = 0u; i < 4u; i++) {
        if (column + i < product.n) {
            let added = Number(addend[row * product.addend_row + (column + i) * product.addend_column]);
            output[part.output + row * product.n + column + i] = Out(product.alpha * sums[i] + product.beta * added);
        }
    }
}
