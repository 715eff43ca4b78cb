// How an output element of a scatter finds its values: axes of the output, and how values of the same
// place are combined. The kernel has the bindings `input` and `source`, and `params: Params`.

// use lib/nan.wgsl
// use lib/quotient.wgsl

const MAX_AXES = 16u;
const MAX_SEARCHED = 8u;

const WRITE = 0u; // the last stays
const ADD = 1u;
const MULTIPLY = 2u;
const LARGEST = 3u;
const SMALLEST = 4u;

override REDUCE: u32;
override MEAN: bool; // of what is added
override INCLUDE_SELF: bool; // otherwise an element that gets values has these alone
override HAS_SOURCE: bool; // otherwise a number is written

alias Number = ${NUMBER}; // f32 or i32

struct Params {
    elements: u32,
    rank: u32,
    count: u32, // indices to search
    searched_rank: u32,
    flag: u32,
    value: Number,
    scale: Number, // of what is added
    sizes: vec4<i32>, // of the indexed dims; 1 for absent ones
    // (size, how many of them have indices, stride of the source, index tensor counted from 1)
    axes: array<vec4<i32>, MAX_AXES>,
    index_strides: array<vec4<i32>, MAX_AXES>, // of the same axes, in each index tensor
    searched: array<vec4<i32>, MAX_SEARCHED>, // (size, stride of the source)
    searched_strides: array<vec4<i32>, MAX_SEARCHED>,
}

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

fn larger_i32(a: i32, b: i32) -> i32 { return max(a, b); }
fn smaller_i32(a: i32, b: i32) -> i32 { return min(a, b); }

// A place's value so far, and how many values it has.
struct Reduced {
    value: Number,
    count: u32,
}

fn begin(element: u32) -> Reduced { return Reduced(Number(input[element]), u32(INCLUDE_SELF)); }

fn with_value(reduced: Reduced, at: i32) -> Reduced {
    var value = params.value;
    if (HAS_SOURCE) {
        value = Number(source[at]);
    }
    if (reduced.count > 0u) {
        switch (REDUCE) {
            case ADD: { value = reduced.value + value * params.scale; }
            case MULTIPLY: { value = reduced.value * value; }
            case LARGEST: { value = larger_${NUMBER}(reduced.value, value); }
            case SMALLEST: { value = smaller_${NUMBER}(reduced.value, value); }
            default: {}
        }
    }
    return Reduced(value, reduced.count + 1u);
}

fn quotient_f32(a: f32, b: u32) -> f32 { return exact_quotient_f32(a, f32(b)); }

// Rounded down.
fn quotient_i32(a: i32, b: u32) -> i32 {
    let divisor = i32(b);
    let quotient = a / divisor;
    return quotient - i32(a - quotient * divisor < 0);
}

fn result_of(reduced: Reduced) -> Number {
    if (MEAN) {
        return quotient_${NUMBER}(reduced.value, max(reduced.count, 1u));
    }
    return reduced.value;
}
