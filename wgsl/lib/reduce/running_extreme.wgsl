// Cumulative extremes as pairs of key and place: of equal elements the last, and NaN stays once it came.

// use lib/reduce/ordered_key.wgsl

override LARGEST: bool;

@group(0) @binding(0) var<storage, read> input: array<${TYPE}>;
@group(0) @binding(1) var<storage, read_write> output: array<${TYPE}>;
@group(0) @binding(2) var<storage, read_write> places: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

alias Total = vec2u;

const NOTHING = vec2u();

fn joined(before: Total, after: Total) -> Total { return select(before, after, after.x >= before.x); }

fn total_at(at: u32, place: u32) -> Total {
    let key = ${KEY}(${NUMBER}(input[at]));
    return vec2u(select(${NAN_KEY}(key), key, LARGEST), place);
}

// Of keys of floats, whose NaN stays above all, and of integers.
fn smallest_first(key: u32) -> u32 { return select(~key, key, key == 0xff800001u); }
fn inverted(key: u32) -> u32 { return ~key; }

fn put(at: u32, base: u32, total: Total) {
    output[at] = input[base + total.y * params.inner];
    places[at] = i32(total.y);
}
