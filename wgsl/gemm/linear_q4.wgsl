// Linear layers with quantized weights and many rows: weights are unpacked to floats on their way into
// shared memory. With BACKWARD, x is multiplied by W itself, not by its transpose.

// use lib/quads.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/plain_epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/linear_q4_input.wgsl
// use lib/gemm/gemm_tile.wgsl

override BACKWARD: bool = false;
const A_K_FIRST = true;
alias ARaw = Block;
alias BRaw = Packed;
override B_K_FIRST: bool = !BACKWARD;

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> row_scales: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> row_zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(5) var<storage, read> addend: array<Stored>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<uniform> params: Params;

fn fetch_a(part: Part, row: u32, k: u32) -> Block {
    return Block(x_quad(row, k), x_quad(row + 1u, k), x_quad(row + 2u, k), x_quad(row + 3u, k));
}

fn a_block(rows: Block) -> Block {
    return transposed(rows);
}

// Four values of four rows of weights: packed with their scales, or unpacked at once if they are not
// whole words or rows of scales.
struct Packed {
    words: vec4<u32>,
    scale: vec4<f32>,
    block: Block,
}

fn fetch_b(part: Part, column: u32, k: u32) -> Packed {
    var packed: Packed;
    if (BACKWARD) {
        packed.block = transposed(weight_block(k, column));
    } else if (!WEIGHTS_ALIGNED) {
        packed.block = weight_block(column, k);
    } else if (k < params.inner) {
        packed.words = words_of(column, k);
        packed.scale = scales_of(column, k);
    }
    return packed;
}

fn b_block(packed: Packed, column: u32, k: u32) -> Block {
    if (BACKWARD || !WEIGHTS_ALIGNED) {
        return packed.block;
    }
    let block = unscaled_block(packed.words >> shifts_of(column, k));
    let scale = packed.scale;
    return Block(block.k0 * scale, block.k1 * scale, block.k2 * scale, block.k3 * scale);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, A_QUADS * 4u, B_QUADS * 4u);
    if (part.exists) {
        multiply_tiles(part, thread);
    }
}
