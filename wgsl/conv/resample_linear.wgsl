// Resizes height and width by interpolating between the four nearest inputs; a quad of neighbouring
// outputs per invocation. FLOAT is the element type in memory: f32 or f16.

// use lib/grid.wgsl

struct Params {
    quads: u32,
    in_size: vec2<u32>, // (height, width), as all pairs here
    out_size: vec2<u32>,
    scale: vec2<f32>, // from outputs to inputs
}

override ALIGN_CORNERS: bool;

@group(0) @binding(0) var<storage, read> input: array<${FLOAT}>;
@group(0) @binding(1) var<storage, read_write> output: array<vec4<${FLOAT}>>;
@group(0) @binding(2) var<uniform> params: Params;

// Per output the input before it, the one after it, and the weight of the latter.
struct Between {
    before: vec4<u32>,
    after: vec4<u32>,
    share: vec4<f32>,
}

fn between(place: vec4<u32>, dim: u32) -> Between {
    var at = vec4<f32>(place) * params.scale[dim];
    if (!ALIGN_CORNERS) {
        at = max((vec4<f32>(place) + 0.5) * params.scale[dim] - 0.5, vec4<f32>());
    }
    let last = vec4<u32>(params.in_size[dim] - 1u);
    let before = min(vec4<u32>(at), last);
    return Between(before, min(before + 1u, last), clamp(at - vec4<f32>(before), vec4<f32>(), vec4<f32>(1.0)));
}

fn at_four(at: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(vec4<${FLOAT}>(input[at.x], input[at.y], input[at.z], input[at.w]));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    let element = vec4<u32>(quad * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let w = between(element % params.out_size.y, 1u);
    let h = between(element / params.out_size.y % params.out_size.x, 0u);
    let channel_at = element / (params.out_size.x * params.out_size.y) * params.in_size.x * params.in_size.y;
    let upper = channel_at + h.before * params.in_size.y;
    let lower = channel_at + h.after * params.in_size.y;
    // Weights, not differences: infinities and equal neighbours stay exact.
    let above = at_four(upper + w.before) * (1.0 - w.share) + at_four(upper + w.after) * w.share;
    let below = at_four(lower + w.before) * (1.0 - w.share) + at_four(lower + w.after) * w.share;
    output[quad] = vec4<${FLOAT}>(above * (1.0 - h.share) + below * h.share);
}
