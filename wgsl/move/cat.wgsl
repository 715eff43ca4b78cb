// Up to four inputs side by side: with everything before the joined dim as rows, an input's row
// lies in columns of the output's row. A unit of the output per invocation.

// use lib/grid.wgsl
// use lib/move_units.wgsl

struct Params {
    units: u32,
    elements: u32,
    columns: u32, // of a row of the output, in units; in parts with PARTS
    first: u32, // column of the first of the inputs
    ends: vec4<u32>, // column after each input; absent inputs end where the last one does
}

@group(0) @binding(0) var<storage, read> a: array<Unit>;
@group(0) @binding(1) var<storage, read> b: array<Unit>;
@group(0) @binding(2) var<storage, read> c: array<Unit>;
@group(0) @binding(3) var<storage, read> d: array<Unit>;
@group(0) @binding(4) var<storage, read_write> output: array<Unit>;
@group(0) @binding(5) var<uniform> params: Params;

// Columns of other dispatches stay unchanged.
fn fetch(element: u32) -> Unit {
    let row = element / params.columns;
    let column = element % params.columns;
    let ends = params.ends;
    if (column < params.first || column >= ends.w) {
        return part_of(output[unit_of(element)], element);
    }
    if (column < ends.x) {
        let at = row * (ends.x - params.first) + column - params.first;
        return part_of(a[unit_of(at)], at);
    }
    if (column < ends.y) {
        let at = row * (ends.y - ends.x) + column - ends.x;
        return part_of(b[unit_of(at)], at);
    }
    if (column < ends.z) {
        let at = row * (ends.z - ends.y) + column - ends.y;
        return part_of(c[unit_of(at)], at);
    }
    let at = row * (ends.w - ends.z) + column - ends.z;
    return part_of(d[unit_of(at)], at);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit < params.units) {
        output[unit] = gathered(unit, params.elements);
    }
}
