// Elements of the ranks `first` to `first + k` of rows of `length` elements, `inner` apart, and their
// indices. An invocation counts the elements that come before its own: that is the element's rank.

// use lib/grid.wgsl
// use lib/reduce/ordered_key.wgsl

override LARGEST: bool;
override WITH_VALUES: bool;

struct Params {
    elements: u32,
    length: u32,
    inner: u32,
    first: u32,
    k: u32,
}

@group(0) @binding(0) var<storage, read> input: array<${TYPE}>;
@group(0) @binding(1) var<storage, read_write> values: array<${TYPE}>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

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
    let line = element / params.inner;
    let column = element % params.inner;
    let own = line % params.length;
    let row = line / params.length;
    let base = row * params.length * params.inner + column;
    let key = key_at(element);
    var rank = 0u;
    for (var i = 0u; i < params.length; i++) {
        let other = key_at(base + i * params.inner);
        rank += u32(other < key || (other == key && i < own));
    }
    if (rank >= params.first && rank - params.first < params.k) {
        let place = (row * params.k + rank - params.first) * params.inner + column;
        if (WITH_VALUES) {
            values[place] = input[element];
        }
        indices[place] = i32(own);
    }
}
