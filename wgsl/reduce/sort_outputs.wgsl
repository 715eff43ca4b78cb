// Elements of the ranks `first` to `first + k` of each row, and their indices, told by sorted pairs. Rows
// have `length` elements, `inner` apart.

// use lib/grid.wgsl

override WITH_VALUES: bool;

struct Params {
    elements: u32, // of an output
    length: u32,
    inner: u32,
    first: u32,
    k: u32,
}

@group(0) @binding(0) var<storage, read> input: array<${TYPE}>;
@group(0) @binding(1) var<storage, read> pairs: array<vec2u>;
@group(0) @binding(2) var<storage, read_write> values: array<${TYPE}>;
@group(0) @binding(3) var<storage, read_write> indices: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element >= params.elements) {
        return;
    }
    let column = element % params.inner;
    let line = element / params.inner;
    let outer = line / params.k;
    let row = outer * params.inner + column;
    let place = pairs[row * params.length + params.first + line % params.k].y;
    if (WITH_VALUES) {
        values[element] = input[(outer * params.length + place) * params.inner + column];
    }
    indices[element] = i32(place);
}
