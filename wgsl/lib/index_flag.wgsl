// Indices that are out of range. The kernel reads nothing there and goes on; the host, which looks at
// the word after the run, raises an error for the call with the largest number.
//
// The kernel has a binding `index_flag: array<atomic<u32>>`, and in its params the `fault` of the call.

// Where a negative index counts from the end; the caller looks at the result's range.
fn from_start(index: vec4<i32>, size: vec4<i32>) -> vec4<i32> {
    return select(index, index + size, index < vec4<i32>());
}

fn is_inside(index: vec4<i32>, size: vec4<i32>) -> bool {
    let inside = all(index >= vec4<i32>()) && all(index < size);
    if (!inside) {
        atomicMax(&index_flag[0], params.flag);
    }
    return inside;
}
