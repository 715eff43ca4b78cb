// Values of up to four index tensors, for kernels with bindings `first` to `fourth` and, in their
// params, the `sizes` of the indexed dims.

// use lib/index_flag.wgsl

override INDICES: u32; // number of index tensors: 1 to 4

// The indices at these places, counted from the start; the caller checks their range.
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
