// use lib/gemm/subgroup_matrix.wgsl

// Self-test of subgroup matrices: one subgroup multiplies two matrices of 16 x 16 small integers. It loads and
// stores as lib/gemm/subgroup_matrix_memory.wgsl does.

// use lib/self_test/bindings.wgsl

const LINE = 6u; // quads from row to row, two of them padding

@group(0) @binding(0) var<storage, read> input: array<vec4<f32>>; // A by rows, then B by columns
@group(0) @binding(1) var<storage, read_write> output: array<vec4<f32>>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> a: array<F16Quad, 16u * LINE>;
var<workgroup> b: array<F16Quad, 16u * LINE>;
var<workgroup> product: array<vec4<f32>, 64>;

@compute @workgroup_size(32)
fn main(place: Place) {
    for (var at = place.thread; at < 64u; at += 32u) {
        let line = at / 4u * LINE + at % 4u;
        a[line] = to_f16(input[at] + vec4<f32>(f32(params.seed)));
        b[line] = to_f16(input[64u + at]);
    }
    workgroupBarrier();
    let left = subgroupMatrixLoad<Left, row_major>(&a, 0u, LINE);
    let right = subgroupMatrixLoad<Right, col_major>(&b, 0u, LINE);
    var sums: Sums;
    sums = subgroupMatrixMultiplyAccumulate(left, right, sums);
    subgroupMatrixStore<row_major>(&product, 0u, sums, 4u);
    workgroupBarrier();
    for (var at = place.thread; at < 64u; at += 32u) {
        output[at] = product[at];
    }
}
