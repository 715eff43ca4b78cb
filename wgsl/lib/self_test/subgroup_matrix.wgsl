// use lib/matrix/subgroup_matrix.wgsl

// Self-test of subgroup matrices: one subgroup multiplies two matrices of 16 x 16 small integers. It loads and
// stores as lib/matrix/subgroup_matrix_memory.wgsl does. After the product comes what rounding took from one of two f16, as
// bits: zero on a device whose `fma` rounds twice.

// use lib/self_test/bindings.wgsl

const LINE = 3u; // units of eight f16 from row to row, one of them padding

@group(0) @binding(0) var<storage, read> input: array<vec4<f32>>; // A by rows, then B by columns
@group(0) @binding(1) var<storage, read_write> output: array<vec4<f32>>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> a: array<vec4<u32>, 16u * LINE>;
var<workgroup> b: array<vec4<u32>, 16u * LINE>;
var<workgroup> product: array<vec4<u32>, 64>;

fn unit_of(first: vec4<f32>, second: vec4<f32>) -> vec4<u32> {
    return vec4<u32>(bitcast<vec2<u32>>(to_f16(first)), bitcast<vec2<u32>>(to_f16(second)));
}

@compute @workgroup_size(32)
fn main(place: Place) {
    let line = place.thread / 2u * LINE + place.thread % 2u;
    let seed = vec4<f32>(f32(params.seed));
    a[line] = unit_of(input[place.thread * 2u] + seed, input[place.thread * 2u + 1u] + seed);
    b[line] = unit_of(input[64u + place.thread * 2u], input[65u + place.thread * 2u]);
    workgroupBarrier();
    let left = subgroupMatrixLoad<FragmentA, row_major>(&a, 0u, LINE);
    let right = subgroupMatrixLoad<FragmentB, col_major>(&b, 0u, LINE);
    var sums: Accumulator;
    sums = subgroupMatrixMultiplyAccumulate(left, right, sums);
    subgroupMatrixStore<row_major>(&product, 0u, sums, 4u);
    workgroupBarrier();
    for (var at = place.thread; at < 64u; at += 32u) {
        output[at] = bitcast<vec4<f32>>(product[at]);
    }
    let factor = f16_splat(input[128].x + f32(params.seed));
    let rest = f16_fma(factor, factor, f16_negate(f16_multiply(factor, factor)));
    if (place.thread == 0u) {
        output[64] = vec4<f32>(f32(f16_pair_bits(rest) & 0xffffu));
    }
}
