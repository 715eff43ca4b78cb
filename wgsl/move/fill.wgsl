// Tensors computed from their shape and scalars: output[i] = f(i), a quad per invocation.

// use lib/grid.wgsl
// use lib/quads.wgsl

alias Vec = vec4<${COMPUTE}>;

struct Params {
    elements: u32,
    width: u32, // of a grid
    a: ${COMPUTE}, // scalars of the op
    b: ${COMPUTE},
}

@group(0) @binding(0) var<storage, read_write> output: array<quad_${OUT}>;
@group(0) @binding(1) var<uniform> start: vec4<i32>;
@group(0) @binding(2) var<uniform> params: Params;

fn formula(i: vec4<u32>, width: vec4<u32>, start: Vec, a: Vec, b: Vec) -> Vec {
    return ${FORMULA};
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad * 4u >= params.elements) {
        return;
    }
    let elements = vec4<u32>(quad * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let values = formula(
        elements,
        vec4<u32>(params.width),
        Vec(${COMPUTE}(start.x)),
        Vec(params.a),
        Vec(params.b),
    );
    output[quad] = store_${COMPUTE}_as_${OUT}(values);
}
