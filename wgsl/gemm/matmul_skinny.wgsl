// GEMM of a matrix of few rows with one of many columns, as fast as B can be read.
// output = f(x, y), x being alpha * sums + beta * addend, and y the residual.

// use lib/math.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/formula_epilogue.wgsl
// use lib/gemm/gemm_operands.wgsl
// use lib/gemm/gemm_skinny.wgsl

struct Params {
    gemm: Gemm,
    a: f32, // of the formula
    b: f32,
    c: f32,
}

@group(0) @binding(0) var<storage, read> a: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> b: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> addend: array<Stored>;
@group(0) @binding(3) var<storage, read> residual: array<Stored>;
@group(0) @binding(4) var<storage, read_write> output: array<Out>;
@group(0) @binding(5) var<uniform> params: Params;

// Writes four columns of one row, except those outside of the matrix.
fn write_quad(part: Part, row: u32, column: u32, sums: Quad) {
    let gemm = params.gemm;
    if (row >= gemm.m || column >= gemm.n) {
        return;
    }
    let at = part.output + row * gemm.n + column;
    let last = gemm.n - 1u - column;
    let four = min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
    let add_at = row * gemm.addend_row + (column + four) * gemm.addend_column;
    let added = Quad(vec4<Stored>(addend[add_at.x], addend[add_at.y], addend[add_at.z], addend[add_at.w]));
    var y = Vec();
    if (RESIDUAL) {
        let other = at + four;
        y = Quad(vec4<Stored>(residual[other.x], residual[other.y], residual[other.z], residual[other.w]));
    }
    let value = epilogue(gemm.alpha * sums + gemm.beta * added, y, params.a, params.b, params.c);
    output[at] = Out(value.x);
    if (last > 0u) { output[at + 1u] = Out(value.y); }
    if (last > 1u) { output[at + 2u] = Out(value.z); }
    if (last > 2u) { output[at + 3u] = Out(value.w); }
}

// Called by all invocations of a workgroup.
fn write_slices(part: Part, thread: u32, sums: Sums) {
    for (var row = 0u; row < ROWS; row++) {
        slice_sums[row * THREADS + thread] = sums[row];
    }
    for (var rest = THREADS / 2u; rest >= LANES; rest /= 2u) {
        workgroupBarrier();
        if (thread < rest) {
            for (var row = 0u; row < ROWS; row++) {
                slice_sums[row * THREADS + thread] += slice_sums[row * THREADS + thread + rest];
            }
        }
    }
    if (thread < LANES) {
        for (var row = 0u; row < ROWS; row++) {
            write_quad(part, part.row + row, column_of(part, thread), slice_sums[row * THREADS + thread]);
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
    let column = column_of(part, thread);
    var sums: Sums;
    for (var k = slice_of(thread) * 4u; k < params.gemm.k; k += SLICES * 4u) {
        let block = b_block(fetch_b(part, column, k), column, k);
        for (var row = 0u; row < ROWS; row++) {
            let x = a_run(part.batch, part.row + row, k);
            sums[row] += x.x * block.k0 + x.y * block.k1 + x.z * block.k2 + x.w * block.k3;
        }
    }
    write_slices(part, thread, sums);
}
