// GEMM of two matrices [m, k] and [n, k] with subgroup matrices; matmul_split_f16.wgsl has split both
// into f16.

// use lib/gemm/subgroup_matrix.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/epilogue.wgsl
// use lib/gemm/f16_scaling.wgsl
// use lib/gemm/subgroup_matrix_tile.wgsl

alias BRaw = Pairs;

struct Params {
    gemm: Gemm,
}

@group(0) @binding(0) var<storage, read> split_f16: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> exponents: array<i32>;
@group(0) @binding(2) var<storage, read> addend: array<Stored>;
@group(0) @binding(3) var<storage, read_write> output: array<Out>;
@group(0) @binding(4) var<uniform> params: Params;

// Columns past the end repeat the last one, as rows do.
fn fetch_b(column: u32, k: u32) -> Pairs {
    let at = split_place(params.gemm.m + min(column, params.gemm.n - 1u), k);
    var pairs: Pairs;
    pairs.p0 = split_f16[at];
    pairs.p1 = split_f16[at + 1u];
    if (B_QUADS == 4u) {
        pairs.p2 = split_f16[at + 2u];
        pairs.p3 = split_f16[at + 3u];
    }
    return pairs;
}

fn b_pairs(pairs: Pairs, scale: f32) -> Pairs { return pairs; }

@compute @workgroup_size(THREADS)
fn main(
    place: Place,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, A_ROWS, B_COLUMNS);
    if (part.exists) {
        multiply_matrices(part, place);
    }
}
