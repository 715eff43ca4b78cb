// Linear layers with quantized weights, many rows at once: weights become floats on their way into
// shared memory. With BACKWARD the product is with W itself, not with its transpose.

// use lib/quads.wgsl
// use lib/product.wgsl
// use lib/addend.wgsl
// use lib/weights.wgsl
// use lib/activations.wgsl
// use lib/tiles.wgsl

override BACKWARD: bool = false;
const A_K_FIRST = true;
override B_K_FIRST: bool = !BACKWARD;

struct Params {
    product: Product,
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

fn a_block(part: Part, row: u32, k: u32) -> Block {
    return transposed(Block(x_quad(row, k), x_quad(row + 1u, k), x_quad(row + 2u, k), x_quad(row + 3u, k)));
}

fn b_block(part: Part, column: u32, k: u32) -> Block {
    if (BACKWARD) {
        return transposed(weight_block(k, column));
    }
    return weight_block(column, k);
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
