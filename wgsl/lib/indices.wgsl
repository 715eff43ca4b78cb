// What up to four tensors of indices say, for kernels that are given them as bindings `first` to
// `fourth` and have, in their params, the `sizes` of the indexed dims.

// use lib/index_flag.wgsl

override INDICES: u32; // how many of the tensors of indices there are: 1 to 4

// The indices at these places, counted from the start; the caller looks at their range.
fn indices_at(places: vec4<i32>) -> vec4<i32> {
    var indices = vec4<i32>(first[places.x], 0, 0, 0);
    if (INDICES > 1u) {
        indices.y = second[places.y];
    }
    if (INDICES > 2u) {
        indices.z = third[places.z];
    }
    if (INDICES > 3u) {
        indices.w = fourth[places.w];
    }
    return from_start(indices, params.sizes);
}
