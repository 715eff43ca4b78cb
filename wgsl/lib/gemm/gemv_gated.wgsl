// Two GEMVs of one row: output = gate_of(gate) * up, gate_of being silu or another formula. Goes with
// lib/gemm/gemv_q4.wgsl; the kernel declares `weights`, `scales`, `up_weights`, `up_scales` and `output`.

alias Vec = vec4<f32>;

fn gate_of(x: Vec) -> Vec { return ${GATE}; }

fn fetch_units(matrix: u32, at: u32, scale: u32) -> Units {
    if (matrix == 0u) {
        return Units(
            weights[at], weights[at + UNITS], weights[at + 2u * UNITS], weights[at + 3u * UNITS],
            vec4<f32>(scales[scale]),
        );
    }
    return Units(
        up_weights[at], up_weights[at + UNITS], up_weights[at + 2u * UNITS], up_weights[at + 3u * UNITS],
        vec4<f32>(up_scales[scale]),
    );
}

// The columns of a workgroup from `first` on, by all of its invocations.
fn multiply_gated(thread: u32, first: u32) {
    multiply_row(thread, 0u, params.scale_stride, min(first + lane_of(thread) * 4u, params.gemm.n - 4u));
    if (thread < COLUMNS && first + thread < params.gemm.n) {
        let gate = gate_of(Vec(sum_of(0u, thread))).x;
        output[first + thread] = Out(gate * sum_of(1u, thread));
    }
}
