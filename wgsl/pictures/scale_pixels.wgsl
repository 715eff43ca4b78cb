// Scales one dim of a picture, a pixel of the output per invocation: a sum of the pixels under a
// filter, in integers with 22 bits after the point, rounded to bytes. A pixel is a word.

// use lib/grid.wgsl

const BITS = 22u;

struct Params {
    pixels: u32, // of the output
    width: u32, // of the output
    source_width: u32,
    before: u32, // size of the dim in the source
    taps: u32,
    dim: u32, // 0: height, 1: width
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read> starts: array<i32>;
@group(0) @binding(2) var<storage, read> weights: array<i32>;
@group(0) @binding(3) var<storage, read_write> output: array<u32>;
@group(0) @binding(4) var<uniform> params: Params;

fn channels(pixel: u32) -> vec4<i32> {
    return vec4<i32>(
        i32(pixel & 0xffu),
        i32((pixel >> 8u) & 0xffu),
        i32((pixel >> 16u) & 0xffu),
        i32(pixel >> 24u),
    );
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let pixel = flat_index(invocation, workgroups);
    if (pixel >= params.pixels) {
        return;
    }
    let row = pixel / params.width;
    let column = pixel % params.width;
    let upright = params.dim == 0u;
    let place = select(column, row, upright);
    let base = select(row * params.source_width, column, upright);
    let step = select(1u, params.source_width, upright);
    let start = starts[place];
    let last = i32(params.before) - 1;
    var total = vec4<i32>(1 << (BITS - 1u));
    for (var tap = 0u; tap < params.taps; tap++) {
        let at = u32(clamp(start + i32(tap), 0, last));
        total += channels(input[base + at * step]) * weights[place * params.taps + tap];
    }
    let made = vec4<u32>(clamp(total >> vec4<u32>(BITS), vec4<i32>(), vec4<i32>(255)));
    output[pixel] = made.x | (made.y << 8u) | (made.z << 16u) | (made.w << 24u);
}
