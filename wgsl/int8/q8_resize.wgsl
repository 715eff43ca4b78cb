// Bytes interpolated between their four nearest ones, in integers: a word of outputs per invocation.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/bytes.wgsl

const WEIGHT_BITS = 11u;

override X_UNSIGNED: bool;

struct Params {
    outputs: u32,
    nothing: u32, // 0, which the compiler does not know
    in_size: vec2<u32>, // (height, width), as all pairs here
    out_size: vec2<u32>,
    scale: vec2<f32>,
    offset: vec2<f32>,
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

// The input before an output, the one after it, and the weight of the latter.
struct Between {
    before: u32,
    after: u32,
    weight: i32,
}

fn between(place: u32, dim: u32) -> Between {
    let last = params.in_size[dim] - 1u;
    // The product is rounded, not fused with the sum.
    let product = bitcast<f32>(bitcast<u32>(f32(place) * params.scale[dim]) | params.nothing);
    let at = clamp(product + params.offset[dim], 0.0, f32(last));
    let before = u32(at);
    return Between(before, min(before + 1u, last), i32(round((at - f32(before)) * 2048.0)));
}

fn number_at(at: u32) -> i32 {
    let word = input[at / 4u];
    if (X_UNSIGNED) {
        return i32((word >> (8u * (at % 4u))) & 0xffu);
    }
    return signed_byte(word, at);
}

fn mixed(first: i32, second: i32, weight: i32) -> i32 {
    return (first << WEIGHT_BITS) + (second - first) * weight;
}

fn value_of(element: u32) -> i32 {
    let w = between(element % params.out_size.y, 1u);
    let h = between(element / params.out_size.y % params.out_size.x, 0u);
    let plane = element / (params.out_size.x * params.out_size.y) * params.in_size.x * params.in_size.y;
    let upper = plane + h.before * params.in_size.y;
    let lower = plane + h.after * params.in_size.y;
    let above = mixed(number_at(upper + w.before), number_at(upper + w.after), w.weight);
    let below = mixed(number_at(lower + w.before), number_at(lower + w.after), w.weight);
    return (mixed(above, below, h.weight) + (1i << (2u * WEIGHT_BITS - 1u))) >> (2u * WEIGHT_BITS);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    if (word * 4u >= params.outputs) {
        return;
    }
    var values = vec4<i32>();
    for (var i = 0u; i < min(4u, params.outputs - word * 4u); i++) {
        values[i] = value_of(word * 4u + i);
    }
    output[word] = word_of(vec4<u32>(values));
}
