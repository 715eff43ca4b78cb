// Elements written or combined at the places that index tensors name: an element of the output per
// invocation, which searches all indices that could name it, in order. A negative index counts from
// the end if WRAPS; one out of range sets the index flag.

// use lib/grid.wgsl
// use lib/indices.wgsl
// use lib/scatter.wgsl

@group(0) @binding(0) var<storage, read> input: array<${TYPE}>;
@group(0) @binding(1) var<storage, read> source: array<${TYPE}>;
@group(0) @binding(2) var<storage, read> first: array<i32>;
@group(0) @binding(3) var<storage, read> second: array<i32>;
@group(0) @binding(4) var<storage, read> third: array<i32>;
@group(0) @binding(5) var<storage, read> fourth: array<i32>;
@group(0) @binding(6) var<storage, read_write> output: array<${TYPE}>;
@group(0) @binding(7) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(8) var<uniform> params: Params;

fn reduced_of(element: u32) -> Reduced {
    let place = place_of(element);
    var result = begin(element);
    for (var number = 0u; number < select(0u, params.count, place.inside); number++) {
        var rest = number;
        var at = place.source;
        var places = place.indices;
        for (var i = params.searched_rank; i > 0u; i--) {
            let axis = params.searched[i - 1u];
            let coordinate = i32(rest % u32(axis.x));
            rest /= u32(axis.x);
            at += coordinate * axis.y;
            places += coordinate * params.searched_strides[i - 1u];
        }
        let indices = indices_at(places);
        if (is_inside(indices, params.sizes) && all(indices == place.key)) {
            result = with_value(result, at);
        }
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
