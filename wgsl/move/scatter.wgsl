// Elements written or added at the places that index tensors name: an element of the output per
// invocation, which searches all indices that could name it, in order. A negative index counts from
// the end if WRAPS; one out of range sets the index flag.

// use lib/grid.wgsl
// use lib/indices.wgsl

const MAX_AXES = 16u;
const MAX_SEARCHED = 8u;

override ADDS: bool;
override HAS_SOURCE: bool; // otherwise a number is written

alias Stored = ${FLOAT};

struct Params {
    elements: u32,
    rank: u32,
    count: u32, // indices to search
    searched_rank: u32,
    flag: u32,
    value: f32,
    sizes: vec4<i32>, // of the indexed dims; 1 for absent ones
    // (size, how many of them have indices, stride of the source, index tensor counted from 1)
    axes: array<vec4<i32>, MAX_AXES>,
    index_strides: array<vec4<i32>, MAX_AXES>, // of the same axes, in each index tensor
    searched: array<vec4<i32>, MAX_SEARCHED>, // (size, stride of the source)
    searched_strides: array<vec4<i32>, MAX_SEARCHED>,
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> source: array<Stored>;
@group(0) @binding(2) var<storage, read> first: array<i32>;
@group(0) @binding(3) var<storage, read> second: array<i32>;
@group(0) @binding(4) var<storage, read> third: array<i32>;
@group(0) @binding(5) var<storage, read> fourth: array<i32>;
@group(0) @binding(6) var<storage, read_write> output: array<Stored>;
@group(0) @binding(7) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(8) var<uniform> params: Params;

// An output element: the place that indices must name to mean it, and where its indices begin.
struct Place {
    inside: bool,
    key: vec4<i32>,
    source: i32,
    indices: vec4<i32>,
}

fn place_of(element: u32) -> Place {
    var rest = element;
    var place = Place(true, vec4<i32>(), 0, vec4<i32>());
    for (var i = params.rank; i > 0u; i--) {
        let axis = params.axes[i - 1u];
        let coordinate = i32(rest % u32(axis.x));
        rest /= u32(axis.x);
        place.inside = place.inside && coordinate < axis.y;
        place.source += coordinate * axis.z;
        place.indices += coordinate * params.index_strides[i - 1u];
        place.key = select(place.key, vec4<i32>(coordinate), vec4<i32>(1, 2, 3, 4) == vec4<i32>(axis.w));
    }
    return place;
}

fn result_of(element: u32) -> f32 {
    let place = place_of(element);
    var result = f32(input[element]);
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
            var value = params.value;
            if (HAS_SOURCE) {
                value = f32(source[at]);
            }
            result = select(value, result + value, ADDS);
        }
    }
    return result;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element < params.elements) {
        output[element] = Stored(result_of(element));
    }
}
