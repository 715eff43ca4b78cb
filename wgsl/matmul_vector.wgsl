// Products of a matrix of few rows with one of many columns: as fast as B can be read.

// use lib/product.wgsl
// use lib/addend.wgsl
// use lib/operands.wgsl
// use lib/slices.wgsl

struct Params {
    product: Product,
}

@group(0) @binding(0) var<storage, read> a: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> b: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> addend: array<Stored>;
@group(0) @binding(3) var<storage, read_write> output: array<Out>;
@group(0) @binding(4) var<uniform> params: Params;

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
    for (var k = slice_of(thread) * 4u; k < params.product.k; k += SLICES * 4u) {
        let block = b_block(part, column, k);
        for (var row = 0u; row < ROWS; row++) {
            let x = a_run(part.batch, part.row + row, k);
            sums[row] += x.x * block.k0 + x.y * block.k1 + x.z * block.k2 + x.w * block.k3;
        }
    }
    write_slices(part, thread, sums);
}
