// Linear layers with quantized weights for few rows: as fast as the weights can be read.

// use lib/quads.wgsl
// use lib/nan.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/plain_epilogue.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/linear_q4_input.wgsl
// use lib/gemm/gemm_skinny.wgsl
// use lib/gemm/prologue.wgsl
// use lib/gemm/linear_q4_skinny.wgsl

// Rows of weights are whole vec4<u32>s, and all values in one belong to one group.
override WIDE: bool;
const TWICE = ${TWICE}; // whether an invocation has eight columns, the second four of them LANES * 4 further; only if WIDE

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32,
    eps: f32,
    min_scale: f32,
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> row_scales: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> row_zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(5) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(6) var<storage, read> addend: array<Stored>;
@group(0) @binding(7) var<storage, read_write> output: array<Out>;
@group(0) @binding(8) var<uniform> params: Params;

fn units_at(column: u32, unit: u32) -> Units {
    let units = params.row_bytes / 16u;
    let at = column * units + unit;
    let scale = scales_of(column, unit * values_per_unit());
    return Units(weights[at], weights[at + units], weights[at + 2u * units], weights[at + 3u * units], scale);
}

// Adds a vec4<u32> of each of four columns, `unit` being its place in the row.
fn accumulate_unit(sums: ptr<function, Sums>, row: u32, column: u32, unit: u32) {
    let units = params.row_bytes / 16u;
    let at = column * units + unit;
    let k = unit * values_per_unit();
    accumulate_units(
        sums, row, k,
        weights[at], weights[at + units], weights[at + 2u * units], weights[at + 3u * units],
        scales_of(column, k),
    );
}

fn write_rows(part: Part, thread: u32, column: u32) {
    if (thread < LANES) {
        for (var row = 0u; row < ROWS; row++) {
            write_quad(part, part.row + row, column, sums_of(thread, row));
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, ROWS, LANES * select(4u, 8u, TWICE));
    if (!part.exists) {
        return;
    }
    find_row_qparams(thread, part.row);
    let column = column_of(part, thread);
    var sums: Sums;
    var more: Sums;
    var squares: Squares;
    if (TWICE) {
        for (var unit = slice_of(thread); unit < params.row_bytes / 16u; unit += SLICES) {
            let second = units_at(column + LANES * 4u, unit);
            accumulate_two_units(&sums, &more, part.row, unit * values_per_unit(), units_at(column, unit), second);
        }
    } else if (WIDE) {
        for (var unit = slice_of(thread); unit < params.row_bytes / 16u; unit += SLICES) {
            accumulate_unit(&sums, part.row, column, unit);
            add_squares(&squares, part.row, unit * values_per_unit(), values_per_unit());
        }
    } else {
        for (var k = slice_of(thread) * 4u; k < params.inner; k += SLICES * 4u) {
            accumulate_block(&sums, part.row, k, weight_block(column, k));
            add_squares(&squares, part.row, k, 4u);
        }
    }
    reduce_slices(thread, sums, squares);
    write_rows(part, thread, column);
    if (TWICE) {
        workgroupBarrier();
        reduce_slices(thread, more, squares);
        write_rows(part, thread, column + LANES * 4u);
    }
}
