// Indices out of range. The kernel reads nothing for such an index and continues; the host reads the
// index flag after the run and raises an error for the call with the largest number.
//
// WRAPS says whether a negative index counts from the end, as in index.Tensor; elsewhere it is out of range.
//
// The kernel has a binding `index_flag: array<atomic<u32>>`, and in its params `flag`, the number of the call.

override WRAPS: bool = true;

// Count a negative index from the end; the caller checks the result's range.
fn from_start(index: vec4<i32>, size: vec4<i32>) -> vec4<i32> {
    return select(index, index + size, (index < vec4<i32>()) & vec4<bool>(WRAPS));
}

fn is_inside(index: vec4<i32>, size: vec4<i32>) -> bool {
    let inside = all(index >= vec4<i32>()) && all(index < size);
    if (!inside) {
        atomicMax(&index_flag[0], params.flag);
    }
    return inside;
}
