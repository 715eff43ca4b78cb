// Merges sorted runs of pairs, WAYS at a time. The place of a pair is the number of pairs before it: in
// its own run its place there, in each other run what a binary search finds. No two pairs are equal.

// use lib/grid.wgsl

const WAYS = ${WAYS}u;

struct Params {
    elements: u32,
    length: u32, // of a row
    run: u32, // pairs of one
}

@group(0) @binding(0) var<storage, read> pairs: array<vec2u>;
@group(0) @binding(1) var<storage, read_write> merged: array<vec2u>;
@group(0) @binding(2) var<uniform> params: Params;

fn is_before(a: vec2u, b: vec2u) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element >= params.elements) {
        return;
    }
    let own = element % params.length;
    let base = element - own;
    let pair = pairs[element];
    let first = own / (params.run * WAYS) * params.run * WAYS;
    let own_run = own / params.run * params.run;
    var place = first + own - own_run;
    for (var way = 0u; way < WAYS; way++) {
        let begin = first + way * params.run;
        if (begin < params.length && begin != own_run) {
            var low = begin;
            var high = min(begin + params.run, params.length);
            while (low < high) {
                let middle = low + (high - low) / 2u;
                if (is_before(pairs[base + middle], pair)) {
                    low = middle + 1u;
                } else {
                    high = middle;
                }
            }
            place += low - begin;
        }
    }
    merged[base + place] = pair;
}
