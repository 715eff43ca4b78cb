// Floats to integers or integers to floats, with a scale and a zero: a quad per invocation.
//
// IN, OUT, SCALE and ZERO are the stored types; OPERATION is quantized or dequantized, RESULT its type.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/elements.wgsl
// use lib/quotient.wgsl

const MAX_AXES = 16u;

override SCALARS: bool; // scale and zero are in the params
override HAS_ZEROS: bool;
override SHARED: bool; // four neighbours always share a scale
override INVERTED = false; // the inverses of scales are given
override ZERO_FIRST = false; // added before rounding; of no use to dequantized, which is not told

struct Params {
    quads: u32,
    rank: u32,
    scale: f32, // its inverse, if integers are made
    zero: f32,
    low: i32,
    high: i32,
    nothing: u32, // 0, but a compiler cannot know
    axes: array<vec4<u32>, MAX_AXES>, // (size, step from scale to scale), outermost first
}

@group(0) @binding(0) var<storage, read> input: array<quad_${IN}>;
@group(0) @binding(1) var<storage, read> scales: array<${SCALE}>;
@group(0) @binding(2) var<storage, read> zeros: array<word_${ZERO}>;
@group(0) @binding(3) var<storage, read_write> output: array<quad_${OUT}>;
@group(0) @binding(4) var<uniform> params: Params;

fn index_of(element: u32) -> u32 {
    var rest = element;
    var index = 0u;
    for (var i = params.rank; i > 0u; i--) {
        let axis = params.axes[i - 1u];
        index += rest % axis.x * axis.y;
        rest /= axis.x;
    }
    return index;
}

fn zero_at(index: u32) -> f32 {
    if (HAS_ZEROS) {
        return f32(pick_${ZERO}(zeros[index / per_word_${ZERO}], index));
    }
    return 0.0;
}

fn quantized(x: vec4<f32>, scale: vec4<f32>, zero: vec4<f32>) -> vec4<i32> {
    var inverse = scale;
    if (!SCALARS && !INVERTED) {
        inverse = exact_quotient(vec4<f32>(1.0), scale);
    }
    var value = x * inverse;
    if (ZERO_FIRST) {
        // Product and sum must not be fused: the product is rounded.
        value = round(bitcast<vec4<f32>>(bitcast<vec4<u32>>(value) | vec4<u32>(params.nothing)) + zero);
    } else {
        value = round(value) + zero;
    }
    // The conversion ends at the largest float below 2^31.
    let near = clamp(value, vec4<f32>(-2147483648.0), vec4<f32>(2147483520.0));
    let whole = select(vec4<i32>(near), vec4<i32>(0x7fffffff), value > vec4<f32>(2147483520.0));
    return clamp(whole, vec4<i32>(params.low), vec4<i32>(params.high));
}

fn dequantized(x: vec4<f32>, scale: vec4<f32>, zero: vec4<f32>) -> vec4<f32> {
    if (INVERTED) {
        return (x - zero) * exact_quotient(vec4<f32>(1.0), scale);
    }
    return (x - zero) * scale;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    var scale = vec4<f32>(params.scale);
    var zero = vec4<f32>(params.zero);
    if (!SCALARS) {
        if (SHARED) {
            let index = index_of(quad * 4u);
            scale = vec4<f32>(f32(scales[index]));
            zero = vec4<f32>(zero_at(index));
        } else {
            for (var lane = 0u; lane < 4u; lane++) {
                let index = index_of(quad * 4u + lane);
                scale[lane] = f32(scales[index]);
                zero[lane] = zero_at(index);
            }
        }
    }
    output[quad] = store_${RESULT}_as_${OUT}(${OPERATION}(load_${IN}_as_f32(input[quad]), scale, zero));
}
