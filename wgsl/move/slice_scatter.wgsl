// A tensor with a slice of one dim replaced by another tensor, a unit of the output per invocation.

// use lib/grid.wgsl
// use lib/move_units.wgsl

struct Params {
    units: u32,
    elements: u32,
    inner: u32, // elements of the dims after this one, in units
    size: u32, // of the dim
    first: u32,
    last: u32, // end of the slice, exclusive
    step: u32,
    length: u32, // of the part
}

@group(0) @binding(0) var<storage, read> input: array<Unit>;
@group(0) @binding(1) var<storage, read> source: array<Unit>;
@group(0) @binding(2) var<storage, read_write> output: array<Unit>;
@group(0) @binding(3) var<uniform> params: Params;

fn fetch(element: u32) -> Unit {
    let row = element / params.inner;
    let place = row % params.size;
    if (place < params.first || place >= params.last || (place - params.first) % params.step != 0u) {
        return part_of(input[unit_of(element)], element);
    }
    let taken = row / params.size * params.length + (place - params.first) / params.step;
    let at = taken * params.inner + element % params.inner;
    return part_of(source[unit_of(at)], at);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit < params.units) {
        output[unit] = gathered(unit, params.elements);
    }
}
