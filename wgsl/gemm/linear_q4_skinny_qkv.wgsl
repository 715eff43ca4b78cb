// Three linear layers of one x with quantized weights, for few rows, in one dispatch. Their outputs
// are in one buffer, each at its place in `params.matrices`. Weights are wide: see linear_q4_skinny.wgsl.

// use lib/quads.wgsl
// use lib/quotient.wgsl
// use lib/nan.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/gemm_skinny.wgsl
// use lib/gemm/x_quads.wgsl
// use lib/gemm/prologue.wgsl
// use lib/gemm/linear_q4_skinny.wgsl

struct Params {
    gemm: Gemm, // n and n_parts of all three
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32, // ignored
    // Of each matrix: columns, its first workgroup along n, stride from one group's scales to the next,
    // and where in the output it begins
    matrices: array<vec4<u32>, 3>,
    eps: f32,
    min_scale: f32,
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> second_weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> second_scales: array<StoredQuad>;
@group(0) @binding(6) var<storage, read> third_weights: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> third_scales: array<StoredQuad>;
@group(0) @binding(8) var<storage, read_write> output: array<Out>;
@group(0) @binding(9) var<uniform> params: Params;

const TWICE = ${TWICE}; // whether an invocation has eight columns, the second four of them LANES * 4 further

// `matrix` is the same in all invocations of a workgroup.
fn weights_of(matrix: u32, at: u32) -> vec4<u32> {
    if (matrix == 0u) {
        return weights[at];
    }
    if (matrix == 1u) {
        return second_weights[at];
    }
    return third_weights[at];
}

fn scales_at(matrix: u32, quad: u32) -> vec4<f32> {
    if (matrix == 0u) {
        return vec4<f32>(scales[quad]);
    }
    if (matrix == 1u) {
        return vec4<f32>(second_scales[quad]);
    }
    return vec4<f32>(third_scales[quad]);
}

fn units_at(matrix: u32, column: u32, unit: u32) -> Units {
    let units = params.row_bytes / 16u;
    let at = column * units + unit;
    let group = unit * values_per_unit() / GROUP_SIZE;
    return Units(
        weights_of(matrix, at),
        weights_of(matrix, at + units),
        weights_of(matrix, at + 2u * units),
        weights_of(matrix, at + 3u * units),
        scales_at(matrix, (group * params.matrices[matrix].z + column) / 4u),
    );
}

// Writes the sums of the slices to four columns of all rows.
fn write_rows(part: Part, thread: u32, shape: vec4<u32>, column: u32) {
    if (thread >= LANES) {
        return;
    }
    for (var row = 0u; row < ROWS; row++) {
        let result = sums_of(thread, row);
        for (var i = 0u; i < 4u; i++) {
            if (part.row + row < params.gemm.m && column + i < shape.x) {
                output[shape.w + (part.row + row) * shape.x + column + i] = Out(result[i]);
            }
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, ROWS, 1u);
    if (!part.exists) {
        return;
    }
    find_row_qparams(thread, part.row);
    let matrix = u32(part.column >= params.matrices[1].y) + u32(part.column >= params.matrices[2].y);
    let shape = params.matrices[matrix];
    let column = (part.column - shape.y) * LANES * select(4u, 8u, TWICE) + lane_of(thread) * 4u;
    let units = params.row_bytes / 16u;
    var sums: Sums;
    var more: Sums;
    var squares: Squares;
    for (var unit = slice_of(thread); unit < units; unit += SLICES) {
        let k = unit * values_per_unit();
        let found = units_at(matrix, column, unit);
        if (TWICE) {
            accumulate_two_units(&sums, &more, part.row, k, found, units_at(matrix, column + LANES * 4u, unit));
        } else {
            accumulate_units(&sums, part.row, k, found.c0, found.c1, found.c2, found.c3, found.scale);
            add_squares(&squares, part.row, k, values_per_unit());
        }
    }
    reduce_slices(thread, sums, squares);
    write_rows(part, thread, shape, column);
    if (TWICE) {
        workgroupBarrier();
        reduce_slices(thread, more, squares);
        write_rows(part, thread, shape, column + LANES * 4u);
    }
}
