// A scale and a zero for each block of a tensor, so that its values fit a range of integers.
// A workgroup has 4 blocks or more, so that it can write zeros that are bytes as whole words.
// X, SCALE and ZERO are the stored types.

// use lib/quads.wgsl
// use lib/extremes.wgsl
// use lib/quotient.wgsl

const ASYMMETRIC = 0u; // the smallest value meets the lowest integer
const SYMMETRIC = 1u; // zero meets the middle of the range
const NO_CLIPPING = 2u; // likewise, each side having the scale that it needs, and the larger taken
const LEAST_ERROR = 3u; // asymmetric, from the end of the range that is met more closely
override MAPPING: u32;

struct Params {
    blocks: Blocks,
    low: f32, // the range of integers
    high: f32,
    epsilon: f32, // the smallest scale
    middle: f32, // zero of symmetric mappings
}

@group(0) @binding(0) var<storage, read> x: array<vec4<${X}>>;
@group(0) @binding(1) var<storage, read_write> scales: array<vec4<${SCALE}>>;
@group(0) @binding(2) var<storage, read_write> zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<uniform> params: Params;

var<workgroup> block_scales: array<f32, THREADS>;
var<workgroup> block_zeros: array<i32, THREADS>;

fn scale_of(lowest: f32, highest: f32) -> f32 {
    let span = params.high - params.low;
    switch (MAPPING) {
        case SYMMETRIC: { return exact_quotient_f32(max(-lowest, highest), span * 0.5); }
        case NO_CLIPPING: { return max(exact_quotient_f32(lowest, params.low), exact_quotient_f32(highest, params.high)); }
        default: { return exact_quotient_f32(highest - lowest, span); }
    }
}

fn zero_of(lowest: f32, highest: f32, scale: f32) -> f32 {
    let from_lowest = exact_quotient_f32(lowest, scale);
    let from_highest = exact_quotient_f32(highest, scale);
    switch (MAPPING) {
        case ASYMMETRIC: { return params.low - round(from_lowest); }
        case LEAST_ERROR: {
            let below = (params.low + from_lowest) + (params.high + from_highest) > 0.0;
            return round(select(params.high - from_highest, params.low - from_lowest, below));
        }
        default: { return params.middle; }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let found = extremes_of(place);
    // Zero itself must have an integer.
    let lowest = smaller_f32(found.x, 0.0);
    let highest = larger_f32(found.y, 0.0);
    let scale = larger_f32(scale_of(lowest, highest), params.epsilon);
    if (place.lane == 0u) {
        block_scales[place.local] = scale;
        block_zeros[place.local] = i32(clamp(zero_of(lowest, highest, scale), params.low, params.high));
    }
    workgroupBarrier();
    let first = thread * 4u;
    let quad = (workgroup.x + workgroup.y * workgroups.x) * (ROWS / 4u) + thread;
    if (first < ROWS && quad * 4u < params.blocks.count) {
        scales[quad] = vec4<${SCALE}>(vec4<f32>(
            block_scales[first], block_scales[first + 1u], block_scales[first + 2u], block_scales[first + 3u]
        ));
        zeros[quad] = store_i32_as_${ZERO}(vec4<i32>(
            block_zeros[first], block_zeros[first + 1u], block_zeros[first + 2u], block_zeros[first + 3u]
        ));
    }
}
