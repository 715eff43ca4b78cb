// Maxima of windows that follow from the output's size, and where they are, an element of the output
// per invocation. Three dims are pooled: depth, height and width, of which the first may have one element.

// use lib/grid.wgsl
// use lib/nan.wgsl

alias Stored = ${FLOAT};

struct Params {
    in_size: vec3<u32>,
    elements: u32,
    out_size: vec3<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read_write> output: array<Stored>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element >= params.elements) {
        return;
    }
    let out = params.out_size;
    let size = params.in_size;
    let place = vec3<u32>(element / (out.z * out.y) % out.x, element / out.z % out.y, element % out.z);
    let base = element / (out.x * out.y * out.z) * size.x * size.y * size.z;
    let begin = place * size / out;
    let end = ((place + 1u) * size + out - 1u) / out;
    var found = (begin.x * size.y + begin.y) * size.z + begin.z;
    var best = f32(input[base + found]);
    for (var depth = begin.x; depth < end.x; depth++) {
        for (var row = begin.y; row < end.y; row++) {
            let first = (depth * size.y + row) * size.z;
            for (var column = begin.z; column < end.z; column++) {
                let value = f32(input[base + first + column]);
                // The first of equals, but the last NaN: as in torch.
                if (value > best || is_nan_f32(value)) {
                    best = value;
                    found = first + column;
                }
            }
        }
    }
    output[element] = Stored(best);
    indices[element] = i32(found);
}
