// Rotary position embedding of rows that belong to several sequences, from queries, keys and values that lie one after
// the other: queries are written for attention, keys and values to the caches, each row at its own place.

// use lib/grid.wgsl
// use lib/attention/slots.wgsl
// use lib/attention/rope_pairs.wgsl

struct Params {
    q: Tensor,
    k: Tensor,
    tokens: u32,
    rotated: u32, // pairs of a head
    row: u32, // elements of the tables between tokens, and between heads
    head: u32,
    keys_begin: u32, // in `qkv`
    values_begin: u32,
    slots: i32,
    positions: i32, // of a slot
}

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> cosines: array<f32>;
@group(0) @binding(2) var<storage, read> sines: array<f32>;
@group(0) @binding(3) var<storage, read> places: array<vec4<i32>>;
@group(0) @binding(4) var<storage, read_write> queries: array<f32>;
@group(0) @binding(5) var<storage, read_write> keys: array<f32>;
@group(0) @binding(6) var<storage, read_write> values: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

const position = vec4<i32>(); // the tables have a line for each row

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit < params.q.units) {
        let pair = pair_of(unit, params.q);
        let result = rotate(vec2<f32>(qkv[pair.a], qkv[pair.b]), pair);
        queries[pair.a] = result.x;
        if (pair.count == 2u) {
            queries[pair.b] = result.y;
        }
        return;
    }
    let other = unit - params.q.units;
    if (other >= 2u * params.k.units) {
        return;
    }
    let pair = pair_of(other % params.k.units, params.k);
    let width = params.k.heads * params.k.size;
    let place = position_in(places[pair.a / width], params.slots, params.positions);
    if (place < 0) {
        return;
    }
    let start = u32(place) * width;
    if (other < params.k.units) {
        let first = params.keys_begin;
        let result = rotate(vec2<f32>(qkv[first + pair.a], qkv[first + pair.b]), pair);
        keys[start + pair.a % width] = result.x;
        if (pair.count == 2u) {
            keys[start + pair.b % width] = result.y;
        }
        return;
    }
    let first = params.values_begin;
    values[start + pair.a % width] = qkv[first + pair.a];
    if (pair.count == 2u) {
        values[start + pair.b % width] = qkv[first + pair.b];
    }
}
