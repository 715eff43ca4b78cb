// A linear layer with quantized weights for few rows: output = f(x, y), x being alpha * sums + beta * addend, and
// y the residual. Weights are wide: see linear_q4_skinny.wgsl.

// use lib/quads.wgsl
// use lib/math.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/formula_epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/gemm_skinny.wgsl
// use lib/gemm/x_quads.wgsl
// use lib/gemm/prologue.wgsl
// use lib/gemm/linear_q4_skinny.wgsl

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
    eps: f32,
    min_scale: f32,
    a: f32, // of the formula
    b: f32,
    c: f32,
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> addend: array<Stored>;
@group(0) @binding(5) var<storage, read> residual: array<Stored>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<uniform> params: Params;

// Writes four columns of one row, except those outside of the matrix.
fn write_quad(row: u32, column: u32, sums: vec4<f32>) {
    let gemm = params.gemm;
    for (var i = 0u; i < 4u; i++) {
        if (row < gemm.m && column + i < gemm.n) {
            let at = row * gemm.n + column + i;
            let added = f32(addend[row * gemm.addend_row + (column + i) * gemm.addend_column]);
            output[at] = Out(apply_epilogue(gemm.alpha * sums[i] + gemm.beta * added, at));
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, ROWS, LANES * 4u);
    if (!part.exists) {
        return;
    }
    find_row_qparams(thread, part.row);
    let column = column_of(part, thread);
    let units = params.row_bytes / 16u;
    var sums: Sums;
    var squares: Squares;
    for (var unit = slice_of(thread); unit < units; unit += SLICES) {
        let at = column * units + unit;
        let k = unit * values_per_unit();
        accumulate_units(
            &sums, part.row, k,
            weights[at], weights[at + units], weights[at + 2u * units], weights[at + 3u * units],
            vec4<f32>(scales[(k / GROUP_SIZE * params.scale_stride + column) / 4u]),
        );
        add_squares(&squares, part.row, k, values_per_unit());
    }
    reduce_slices(thread, sums, squares);
    if (thread < LANES) {
        for (var row = 0u; row < ROWS; row++) {
            write_quad(part.row + row, column, sums_of(thread, row));
        }
    }
}
