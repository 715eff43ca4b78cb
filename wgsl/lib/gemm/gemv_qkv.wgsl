// Three GEMVs of one row, whose outputs are in one buffer. Goes with lib/gemm/gemv_q4.wgsl; the kernel declares the
// weights, `output` and `params.matrices`.

// `matrix` is the same in all invocations of a workgroup.
fn fetch_units(matrix: u32, at: u32, scale: u32) -> Units {
    if (matrix == 0u) {
        return Units(
            weights[at], weights[at + UNITS], weights[at + 2u * UNITS], weights[at + 3u * UNITS],
            vec4<f32>(scales[scale]),
        );
    }
    if (matrix == 1u) {
        return Units(
            second_weights[at], second_weights[at + UNITS], second_weights[at + 2u * UNITS], second_weights[at + 3u * UNITS],
            vec4<f32>(second_scales[scale]),
        );
    }
    return Units(
        third_weights[at], third_weights[at + UNITS], third_weights[at + 2u * UNITS], third_weights[at + 3u * UNITS],
        vec4<f32>(third_scales[scale]),
    );
}

// The columns of workgroup `index`, by all of its invocations.
fn multiply_qkv(thread: u32, index: u32) {
    if (index * COLUMNS >= params.gemm.n) {
        return;
    }
    let matrix = u32(index >= params.matrices[1].y) + u32(index >= params.matrices[2].y);
    let shape = params.matrices[matrix];
    let first = (index - shape.y) * COLUMNS;
    multiply_row(thread, matrix, shape.z, min(first + lane_of(thread) * 4u, shape.x - 4u));
    if (thread < COLUMNS && first + thread < shape.x) {
        output[shape.w + first + thread] = Out(sum_of(0u, thread));
    }
}
