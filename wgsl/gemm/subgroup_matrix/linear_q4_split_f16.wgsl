// For linear_q4_subgroup_matrix.wgsl and linear_q4_multi_matrix.wgsl: splits the rows of x into f16, two for each
// number, and finds the exponents that bring rows of x and columns of weights into the range of f16. A workgroup takes
// one row, or, after the last row, the scales of eight columns: many invocations for each, as few reads follow each
// other then.

// use lib/matrix/subgroup_matrix.wgsl
// use lib/quads.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/linear_q4_input.wgsl
// use lib/matrix/f16_scaling.wgsl
// use lib/matrix/split_f16.wgsl
// use lib/matrix/joined_columns.wgsl

const COLUMNS = 8u;

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32, // ignored
    matrices: array<vec4<u32>, 3>,
    scale_power: u32, // that the largest scale of a column comes to
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> row_scales: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> row_zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> second_scales: array<StoredQuad>;
@group(0) @binding(5) var<storage, read> third_scales: array<StoredQuad>;
@group(0) @binding(6) var<storage, read_write> split_f16: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> exponents: array<i32>;
@group(0) @binding(8) var<uniform> params: Params;

var<workgroup> sizes: array<atomic<u32>, COLUMNS>;

fn row_quad(row: u32, k: u32) -> vec4<f32> { return x_quad(row, k); }

fn scale_size(matrix: u32, at: u32) -> u32 {
    var scale = 0.0;
    if (matrix == 0u) {
        scale = f32(scales[at / 4u][at % 4u]);
    } else if (matrix == 1u) {
        scale = f32(second_scales[at / 4u][at % 4u]);
    } else {
        scale = f32(third_scales[at / 4u][at % 4u]);
    }
    return bitcast<u32>(scale) & 0x7fffffffu;
}

fn find_column_exponents(thread: u32, first: u32) {
    let lane = thread % COLUMNS;
    let column = first + lane;
    let groups = (params.inner - 1u) / params.group + 1u;
    if (column < params.gemm.n) {
        let place = joined_column(column);
        let stride = params.matrices[place.matrix].z;
        var size = 0u;
        for (var group = thread / COLUMNS; group < groups; group += THREADS / COLUMNS) {
            size = max(size, scale_size(place.matrix, group * stride + place.row));
        }
        atomicMax(&sizes[lane], size);
    }
    workgroupBarrier();
    if (thread < COLUMNS && column < params.gemm.n) {
        exponents[params.gemm.m + column] = exponent_of(atomicLoad(&sizes[lane]), params.scale_power);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let index = group.x + group.y * groups.x;
    if (index < params.gemm.m) {
        split_row(thread, index);
    } else {
        find_column_exponents(thread, (index - params.gemm.m) * COLUMNS);
    }
}
