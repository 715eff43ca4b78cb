// GEMM of two plain matrices with many rows and columns, in tiles.

// use lib/gemm/gemm.wgsl
// use lib/gemm/plain_epilogue.wgsl
// use lib/gemm/gemm_operands.wgsl
// use lib/gemm/gemm_tile.wgsl

alias ARaw = Block;
alias BRaw = Block;

struct Params {
    gemm: Gemm,
}

@group(0) @binding(0) var<storage, read> a: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> b: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> addend: array<Stored>;
@group(0) @binding(3) var<storage, read_write> output: array<Out>;
@group(0) @binding(4) var<uniform> params: Params;

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
