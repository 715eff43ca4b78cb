// Means of runs of bytes: four of them, a word of the output, per invocation.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/bytes.wgsl

override X_UNSIGNED: bool;

struct Params {
    means: u32,
    count: u32, // bytes of a run
    scale: f32,
    offset: f32,
    low: f32,
    high: f32,
    nothing: u32, // 0, which the compiler does not know
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

fn sum_of(word: u32) -> i32 {
    if (X_UNSIGNED) {
        return i32(dot4U8Packed(word, ONES));
    }
    return dot4I8Packed(word, ONES);
}

fn sum_from(first: u32) -> i32 {
    var sum = 0;
    for (var i = 0u; i < params.count; i += 4u) {
        let byte = first + i;
        let word = joined(input[byte / 4u], input[byte / 4u + 1u], byte);
        sum += sum_of(first_bytes(word, params.count - i));
    }
    return sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    if (word * 4u >= params.means) {
        return;
    }
    var sums = vec4<i32>();
    for (var i = 0u; i < min(4u, params.means - word * 4u); i++) {
        sums[i] = sum_from((word * 4u + i) * params.count);
    }
    // The product is rounded, not fused with the sum: then all GPUs compute the same integers.
    let product = bitcast<vec4<u32>>(vec4<f32>(sums) * params.scale) | vec4<u32>(params.nothing);
    let value = clamp(round(bitcast<vec4<f32>>(product) + params.offset), vec4<f32>(params.low), vec4<f32>(params.high));
    output[word] = word_of(vec4<u32>(vec4<i32>(value)));
}
