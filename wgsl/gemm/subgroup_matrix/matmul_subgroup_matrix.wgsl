// GEMM of two matrices [m, k] and [n, k] with subgroup matrices; matmul_split_f16.wgsl has split both
// into f16.

// use lib/matrix/subgroup_matrix.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/plain_epilogue.wgsl
// use lib/matrix/f16_scaling.wgsl
// use lib/matrix/subgroup_matrix_tile.wgsl
// use lib/matrix/write_sums.wgsl

alias BRaw = SplitUnit;

struct Params {
    gemm: Gemm,
}

@group(0) @binding(0) var<storage, read> split_f16: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> exponents: array<i32>;
@group(0) @binding(2) var<storage, read> addend: array<Stored>;
@group(0) @binding(3) var<storage, read_write> output: array<Out>;
@group(0) @binding(4) var<uniform> params: Params;

// Columns past the end repeat the last one, as rows do.
fn fetch_b(column: u32, k: u32) -> SplitUnit {
    let at = split_place(params.gemm.m + min(column, params.gemm.n - 1u), k, B_PARTS);
    var unit: SplitUnit;
    unit.high = split_f16[at];
    if (B_PARTS == 2u) {
        unit.low = split_f16[at + 1u];
    }
    return unit;
}

fn b_unit(unit: SplitUnit, scale: f32) -> SplitUnit { return unit; }

@compute @workgroup_size(THREADS) ${SUBGROUP_SIZE}
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
