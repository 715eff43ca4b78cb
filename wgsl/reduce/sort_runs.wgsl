// Rows of `length` elements, `inner` apart, as pairs of key and index, sorted within runs of RUN. An
// invocation counts the elements of its run that come before its own: no invocation waits for another.

// use lib/grid.wgsl
// use lib/reduce/ordered_key.wgsl

const RUN = ${RUN}u;

override LARGEST: bool;

struct Params {
    elements: u32,
    length: u32,
    inner: u32,
}

@group(0) @binding(0) var<storage, read> input: array<${TYPE}>;
@group(0) @binding(1) var<storage, read_write> pairs: array<vec2u>;
@group(0) @binding(2) var<uniform> params: Params;

// What comes first has the smallest key.
fn key_at(place: u32) -> u32 {
    let key = ${KEY}(${NUMBER}(input[place]));
    return select(key, ~key, LARGEST);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element >= params.elements) {
        return;
    }
    let row = element / params.length;
    let own = element % params.length;
    let base = (row / params.inner) * params.length * params.inner + row % params.inner;
    let begin = own - own % RUN;
    let key = key_at(base + own * params.inner);
    var rank = begin;
    for (var i = begin; i < min(begin + RUN, params.length); i++) {
        let other = key_at(base + i * params.inner);
        rank += u32(other < key || (other == key && i < own));
    }
    pairs[row * params.length + rank] = vec2u(key, own);
}
