// Resizes height and width by repeating or dropping rows and columns: each output is the input at or
// before its place.

// use lib/grid.wgsl
// use lib/move_units.wgsl

struct Params {
    units: u32,
    elements: u32,
    in_size: vec2<u32>, // (height, width), as all pairs here
    out_size: vec2<u32>,
    scale: vec2<f32>, // from outputs to inputs
}

@group(0) @binding(0) var<storage, read> input: array<Unit>;
@group(0) @binding(1) var<storage, read_write> output: array<Unit>;
@group(0) @binding(2) var<uniform> params: Params;

fn source(place: u32, dim: u32) -> u32 {
    return min(u32(f32(place) * params.scale[dim]), params.in_size[dim] - 1u);
}

fn fetch(element: u32) -> Unit {
    let w = source(element % params.out_size.y, 1u);
    let h = source(element / params.out_size.y % params.out_size.x, 0u);
    let channel = element / (params.out_size.x * params.out_size.y);
    let at = (channel * params.in_size.x + h) * params.in_size.y + w;
    return part_of(input[unit_of(at)], at);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit < params.units) {
        output[unit] = gathered(unit, params.elements);
    }
}
