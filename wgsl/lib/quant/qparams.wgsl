// The scale and zero point for a block's min and max. Goes with lib/quant/min_max.wgsl.

// use lib/quotient.wgsl

const ASYMMETRIC = 0u; // the smallest value meets the lowest integer
const SYMMETRIC = 1u; // zero meets the middle of the range
const NO_CLIPPING = 2u; // likewise, each side having the scale that it needs, and the larger taken
const LEAST_ERROR = 3u; // asymmetric, from the end of the range that is met more closely
const INVERSE_FIRST = 4u; // likewise, but the result is the inverse of the scale
override MAPPING: u32;

struct Params {
    blocks: Blocks,
    low: f32, // the range of integers
    high: f32,
    epsilon: f32, // the smallest scale
    middle: f32, // zero of symmetric mappings
    nothing: u32, // 0, which the compiler does not know
}

fn inverse_of(lowest: f32, highest: f32) -> f32 {
    return select(exact_quotient_f32(params.high - params.low, highest - lowest), 1.0, highest == lowest);
}

// Rounds a product, so that it is not fused with a sum.
fn alone(product: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(product) | params.nothing);
}

fn zero_of_least_error(from_lowest: f32, from_highest: f32) -> f32 {
    let below = (params.low + from_lowest) + (params.high + from_highest) > 0.0;
    return round(select(params.high - from_highest, params.low - from_lowest, below));
}

fn scale_of(lowest: f32, highest: f32) -> f32 {
    let span = params.high - params.low;
    switch (MAPPING) {
        case SYMMETRIC: { return exact_quotient_f32(max(-lowest, highest), span * 0.5); }
        case NO_CLIPPING: { return max(exact_quotient_f32(lowest, params.low), exact_quotient_f32(highest, params.high)); }
        case INVERSE_FIRST: { return inverse_of(lowest, highest); }
        default: { return exact_quotient_f32(highest - lowest, span); }
    }
}

fn unclamped_zero_point(lowest: f32, highest: f32, scale: f32) -> f32 {
    let from_lowest = exact_quotient_f32(lowest, scale);
    let from_highest = exact_quotient_f32(highest, scale);
    switch (MAPPING) {
        case ASYMMETRIC: { return params.low - round(from_lowest); }
        case LEAST_ERROR: { return zero_of_least_error(from_lowest, from_highest); }
        case INVERSE_FIRST: { return zero_of_least_error(alone(lowest * scale), alone(highest * scale)); }
        default: { return params.middle; }
    }
}

// The range that the integers must cover, widened to include zero.
fn range_with_zero(found: Reduced) -> vec2<f32> {
    return vec2<f32>(smaller_f32(found.x, 0.0), larger_f32(found.y, 0.0));
}

fn clamped_scale(range: vec2<f32>) -> f32 {
    return larger_f32(scale_of(range.x, range.y), params.epsilon);
}

fn zero_point_of(range: vec2<f32>, scale: f32) -> i32 {
    return i32(clamp(unclamped_zero_point(range.x, range.y, scale), params.low, params.high));
}
