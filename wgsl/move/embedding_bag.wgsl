// Bags of a table's rows: an element of the output per invocation, which takes the rows of its bag in
// order. A bag begins at its offset and ends at the next one, or, for the last, at the end of the indices.
// Offsets that do not rise from 0 to the end set the index flag, as does an index out of range.

// use lib/grid.wgsl
// use lib/index_flag.wgsl
// use lib/nan.wgsl
// use lib/quotient.wgsl

const MEAN = 1u;
const MAX = 2u;

override MODE: u32; // 0 sums up
override WEIGHTED: bool;
override PLACES: bool; // whether to write which row is the largest
override LAST_ENDS: bool; // the last offset is the end of the last bag

alias Stored = ${FLOAT};

struct Params {
    bags: u32,
    columns: u32,
    count: u32, // indices
    rows: i32,
    padding: i32, // a row that counts for nothing, or -1
    flag: u32,
}

@group(0) @binding(0) var<storage, read> table: array<Stored>;
@group(0) @binding(1) var<storage, read> indices: array<i32>;
@group(0) @binding(2) var<storage, read> offsets: array<i32>;
@group(0) @binding(3) var<storage, read> weights: array<Stored>;
@group(0) @binding(4) var<storage, read_write> output: array<Stored>;
@group(0) @binding(5) var<storage, read_write> places: array<i32>;
@group(0) @binding(6) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(7) var<uniform> params: Params;

// Of the indices of a bag; no index if its offsets are wrong.
fn bounds_of(bag: u32) -> vec2u {
    let count = i32(params.count);
    let is_last = bag + 1u == params.bags;
    let begin = offsets[bag];
    var end = count;
    if (LAST_ENDS || !is_last) {
        end = offsets[bag + 1u];
    }
    // Sums and means may leave out indices at the end; a maximum may not.
    let ends = !is_last || MODE != MAX || end == count;
    let begins = bag > 0u || begin == 0;
    if (begin < 0 || begin > end || end > count || !begins || !ends) {
        atomicMax(&index_flag[0], params.flag);
        return vec2u();
    }
    return vec2u(u32(begin), u32(end));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element >= params.bags * params.columns) {
        return;
    }
    let bag = element / params.columns;
    let column = element % params.columns;
    let bounds = bounds_of(bag);
    var result = 0.0;
    var size = 0u;
    var place = 0;
    for (var i = bounds.x; i < bounds.y; i++) {
        let row = indices[i];
        if (!is_inside(vec4<i32>(row), vec4<i32>(params.rows)) || row == params.padding) {
            continue;
        }
        var value = f32(table[u32(row) * params.columns + column]);
        if (WEIGHTED) {
            value *= f32(weights[i]);
        }
        if (MODE != MAX) {
            result += value;
        } else if (size == 0u || (value > result && !is_nan_f32(value) && !is_nan_f32(result))) {
            result = value;
            place = row;
        }
        size++;
    }
    if (MODE == MEAN) {
        // PyTorch counts the indices after the last bag, too.
        size += select(0u, params.count - bounds.y, bag + 1u == params.bags);
        result = exact_quotient_f32(result, f32(max(size, 1u)));
    }
    output[element] = Stored(result);
    if (PLACES) {
        places[element] = place;
    }
}
