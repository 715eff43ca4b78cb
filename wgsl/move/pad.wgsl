// Constant padding: output[i] = input[i - before] where that exists, else a value.
// A unit of the output per invocation.

// use lib/grid.wgsl
// use lib/move_units.wgsl

const MAX_AXES = 16u;

// Sizes are in units along the innermost axis; in parts with PARTS.
struct Params {
    units: u32,
    elements: u32,
    rank: u32,
    value: u32, // its bits
    axes: array<vec4<i32>, MAX_AXES>, // (size, size of the input, before), outermost first
}

@group(0) @binding(0) var<storage, read> input: array<Unit>;
@group(0) @binding(1) var<storage, read_write> output: array<Unit>;
@group(0) @binding(2) var<uniform> params: Params;

fn fetch(element: u32) -> Unit {
    var rest = element;
    var at = 0u;
    var stride = 1u;
    for (var i = params.rank; i > 0u; i--) {
        let axis = params.axes[i - 1u];
        let coordinate = i32(rest % u32(axis.x)) - axis.z;
        if (coordinate < 0 || coordinate >= axis.y) {
            return part_of(Unit(params.value), element);
        }
        at += u32(coordinate) * stride;
        stride *= u32(axis.y);
        rest /= u32(axis.x);
    }
    return part_of(input[unit_of(at)], at);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit < params.units) {
        output[unit] = gathered(unit, params.elements);
    }
}
