// The rows of x [m, k] as codes of 8 bits, for linear_q4_int8.wgsl: each invocation has a block of 32 values.
//
// With BLOCKS, a block has a scale by which its largest value becomes 127: `numbers` is [m, k / 32]. Otherwise x is
// rounded with a scale and a zero per row: `numbers` is [m, 2].
//
// Four values make a word. With NIBBLES, the four at even places of eight make a word, then those at odd places: the order
// of the nibbles in a word of weights.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/quotient.wgsl
// use lib/quant/scale_pair.wgsl
// use lib/nan.wgsl
// use lib/gemm/gemm.wgsl

override BLOCKS: bool;
override NIBBLES: bool;

struct Params {
    gemm: Gemm,
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> row_scales: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> row_zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read_write> codes: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> numbers: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

const BLOCK_QUADS = 8u;

// What values are multiplied by, and the zero that is added.
struct Rounding {
    inverse: f32,
    zero: f32,
}

fn rounding_of_row(row: u32, first: bool) -> Rounding {
    let scale = scale_pair(f32(row_scales[row / 4u][row % 4u]));
    let zero = load_${ZERO}_as_f32(row_zeros[row / 4u])[row % 4u];
    if (first) {
        numbers[2u * row] = scale.x;
        numbers[2u * row + 1u] = zero;
    }
    return Rounding(scale.y, zero);
}

// A NaN makes the scale NaN: comparisons may drop it, a sum does not.
fn rounding_of_block(block: u32) -> Rounding {
    var largest = 0.0;
    var sum = 0.0;
    for (var i = 0u; i < BLOCK_QUADS; i++) {
        let values = abs(vec4<f32>(x[block * BLOCK_QUADS + i]));
        largest = max(largest, max(max(values.x, values.y), max(values.z, values.w)));
        sum += dot(values, vec4<f32>(1.0));
    }
    let scale = largest / 127.0;
    numbers[block] = select(scale, sum, is_nan_f32(sum));
    return Rounding(select(1.0 / scale, 0.0, scale == 0.0), 0.0);
}

fn codes_of(values: vec4<f32>, rounding: Rounding) -> vec4<u32> {
    let rounded = round(values * rounding.inverse) + rounding.zero;
    return vec4<u32>(vec4<i32>(clamp(rounded, vec4<f32>(-128.0), vec4<f32>(127.0))));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let block = flat_index(invocation, workgroups);
    let blocks = params.gemm.k / 32u; // of a row
    if (block >= params.gemm.m * blocks) {
        return;
    }
    var rounding: Rounding;
    if (BLOCKS) {
        rounding = rounding_of_block(block);
    } else {
        rounding = rounding_of_row(block / blocks, block % blocks == 0u);
    }
    for (var i = 0u; i < BLOCK_QUADS; i += 2u) {
        let at = block * BLOCK_QUADS + i;
        let a = codes_of(vec4<f32>(x[at]), rounding);
        let b = codes_of(vec4<f32>(x[at + 1u]), rounding);
        let even = select(a, vec4<u32>(a.x, a.z, b.x, b.z), NIBBLES);
        let odd = select(b, vec4<u32>(a.y, a.w, b.y, b.w), NIBBLES);
        codes[at / 2u] = vec2<u32>(word_of(even), word_of(odd));
    }
}
