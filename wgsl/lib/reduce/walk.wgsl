// Positions of a row's items: the counterpart of ReduceWalk in engine/ops/reduce/reduce.py.
//
// The shader has in its params `kept_axes` and `axes: array<vec4<u32>, MAX_AXES>`: (size, stride) in
// items, the kept ones, then the reduced ones.

const MAX_AXES = 24u;
override REDUCED_AXES: u32;

fn offset_of(index: u32, first: u32, axes: u32) -> u32 {
    var rest = index;
    var offset = 0u;
    for (var i = first + axes; i > first; i--) {
        let axis = params.axes[i - 1u];
        offset += (rest % axis.x) * axis.y;
        rest /= axis.x;
    }
    return offset;
}

fn reduced_offset(index: u32) -> u32 {
    if (REDUCED_AXES == 1u) {
        return index * params.axes[params.kept_axes].y;
    }
    return offset_of(index, params.kept_axes, REDUCED_AXES);
}
