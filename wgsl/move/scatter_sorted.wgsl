// Elements written or combined at the places that one index tensor names, where its rows are sorted: the
// pairs of a row are (key of an index, number of the index in its row). An invocation finds the first pair
// with its own place by a binary search. An index out of range is the first or the last of its row.

// use lib/grid.wgsl
// use lib/index_flag.wgsl
// use lib/reduce/ordered_key.wgsl
// use lib/scatter.wgsl

@group(0) @binding(0) var<storage, read> input: array<${TYPE}>;
@group(0) @binding(1) var<storage, read> source: array<${TYPE}>;
@group(0) @binding(2) var<storage, read> pairs: array<vec2u>;
@group(0) @binding(3) var<storage, read_write> output: array<${TYPE}>;
@group(0) @binding(4) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(5) var<uniform> params: Params;

fn reduced_of(element: u32) -> Reduced {
    let place = place_of(element);
    var result = begin(element);
    if (!place.inside) {
        return result;
    }
    let row = u32(place.indices.x) * params.count;
    let end = row + params.count;
    let size = vec4<i32>(params.sizes.x);
    for (var i = 0u; i < 2u; i++) {
        let index = bitcast<i32>(pairs[select(row, end - 1u, i == 1u)].x ^ 0x80000000u);
        if (!is_inside(vec4<i32>(index), size)) {
            return result;
        }
    }
    let key = ordered_key_i32(place.key.x);
    var low = row;
    var high = end;
    while (low < high) {
        let middle = low + (high - low) / 2u;
        if (pairs[middle].x < key) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    for (var i = low; i < end; i++) {
        let pair = pairs[i];
        if (pair.x != key) {
            break;
        }
        result = with_value(result, place.source + i32(pair.y) * params.searched[0].y);
    }
    return result;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element < params.elements) {
        output[element] = ${TYPE}(result_of(reduced_of(element)));
    }
}
