// Copies that walk their input with other strides than their output: permute, expand, slice, ...
// output[i] = input[base + start + sum of coordinate * stride], a unit of the output per invocation.

// use lib/grid.wgsl
// use lib/move_units.wgsl
// use lib/slice_start.wgsl

const MAX_AXES = 16u;

// Sizes and strides are in units; in parts with PARTS.
struct Params {
    units: u32,
    elements: u32,
    rank: u32,
    base: i32,
    start_size: i32, // of the dim along which `start` counts
    start_stride: i32, // 0 where nothing starts at a live index
    axes: array<vec4<i32>, MAX_AXES>, // (size, stride of the input), outermost first
}

@group(0) @binding(0) var<storage, read> input: array<Unit>;
@group(0) @binding(1) var<storage, read_write> output: array<Unit>;
@group(0) @binding(2) var<uniform> start: vec4<i32>;
@group(0) @binding(3) var<uniform> params: Params;

fn fetch(element: u32) -> Unit {
    var rest = element;
    var at = params.base + first_index(start.x, params.start_size) * params.start_stride;
    for (var i = params.rank; i > 0u; i--) {
        let axis = params.axes[i - 1u];
        at += i32(rest % u32(axis.x)) * axis.y;
        rest /= u32(axis.x);
    }
    return part_of(input[unit_of(u32(at))], u32(at));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit < params.units) {
        output[unit] = gathered(unit, params.elements);
    }
}
