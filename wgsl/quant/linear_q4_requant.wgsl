// Floats [rows, inner] back into packed weights of four bits, the scales being kept: each value is
// rounded to a multiple of its group's scale. An invocation makes one word of bytes.

// use lib/grid.wgsl
// use lib/quotient.wgsl

alias Stored = ${FLOAT};

struct Params {
    bytes: u32, // of the output
    row_bytes: u32,
    inner: u32,
    group: u32,
    scale_stride: u32,
}

@group(0) @binding(0) var<storage, read> latent: array<Stored>;
@group(0) @binding(1) var<storage, read> scales: array<Stored>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

fn code_at(row: u32, k: u32) -> u32 {
    if (k >= params.inner) {
        return 0u;
    }
    let scale = f32(scales[k / params.group * params.scale_stride + row]);
    if (scale == 0.0) {
        return 8u;
    }
    let value = f32(latent[row * params.inner + k]);
    return u32(clamp(round(exact_quotient_f32(value, scale)), -8.0, 7.0) + 8.0);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    if (word * 4u >= params.bytes) {
        return;
    }
    var packed = 0u;
    for (var i = 0u; i < 4u; i++) {
        let byte = min(word * 4u + i, params.bytes - 1u);
        let row = byte / params.row_bytes;
        let k = byte % params.row_bytes * 2u;
        packed |= (code_at(row, k) | (code_at(row, k + 1u) << 4u)) << (8u * i);
    }
    output[word] = packed;
}
