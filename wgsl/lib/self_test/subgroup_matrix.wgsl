// use lib/matrix/subgroup_matrix.wgsl

// Self-test of subgroup matrices: one subgroup multiplies two matrices of 16 x 16 small integers, loaded and stored as
// the kernels do. After the product comes what rounding took from one of two f16, as
// bits: zero on a device whose `fma` rounds twice.

// use lib/self_test/bindings.wgsl

const LINE = 3u; // units of eight f16 from row to row, one of them padding
const BLOCK = 16u * LINE;
const SUMS_LINE = 4u;

@group(0) @binding(0) var<storage, read> input: array<vec4<f32>>; // A by rows, then B by columns
@group(0) @binding(1) var<storage, read_write> output: array<vec4<f32>>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> pairs: array<array<vec4<u32>, 2u * BLOCK>, 3>; // A twice, B twice, the product

// use lib/matrix/matrices_${MATRICES}.wgsl

fn unit_of(first: vec4<f32>, second: vec4<f32>) -> vec4<u32> {
    return vec4<u32>(bitcast<vec2<u32>>(to_f16(first)), bitcast<vec2<u32>>(to_f16(second)));
}

@compute @workgroup_size(32) ${SUBGROUP_SIZE}
fn main(place: Place) {
    let line = place.thread / 2u * LINE + place.thread % 2u;
    let seed = vec4<f32>(f32(params.seed));
    if (subgroup_of(place) == 0u) {
        let a = unit_of(input[place.thread * 2u] + seed, input[place.thread * 2u + 1u] + seed);
        let b = unit_of(input[64u + place.thread * 2u], input[65u + place.thread * 2u]);
        pairs[0][line] = a;
        pairs[0][BLOCK + line] = a;
        pairs[1][line] = b;
        pairs[1][BLOCK + line] = b;
    }
    workgroupBarrier();
    var sums: Accumulator;
    sums = mma(sums, load_first_a(0u), load_second_b(1u));
    store_sums(sums, 2u);
    workgroupBarrier();
    for (var at = place.thread; at < 64u; at += 32u) {
        output[at] = bitcast<vec4<f32>>(pairs[2][at]);
    }
    let factor = f16_splat(input[128].x + f32(params.seed));
    let rest = f16_fma(factor, factor, f16_negate(f16_multiply(factor, factor)));
    if (place.thread == 0u) {
        output[64] = vec4<f32>(f32(f16_pair_bits(rest) & 0xffffu));
    }
}
