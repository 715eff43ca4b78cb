// From a flat element index to offsets into tensors that are read with other strides.
//
// Each axis is (size, stride of the first operand, of the second, of the third), in elements,
// outermost first; a broadcast axis has stride 0.

const MAX_AXES = 12u;

fn strided_offsets(element: u32, rank: u32, axes: ptr<function, array<vec4<u32>, MAX_AXES>>) -> vec3<u32> {
    var rest = element;
    var offsets = vec3<u32>();
    for (var i = rank; i > 0u; i--) {
        let axis = (*axes)[i - 1u];
        offsets += (rest % axis.x) * axis.yzw;
        rest /= axis.x;
    }
    return offsets;
}
