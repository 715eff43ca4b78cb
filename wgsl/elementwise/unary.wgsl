// Element-wise kernels of one tensor: output[i] = f(input[i]), a quad per invocation.
//
// IN and OUT are the stored types, COMPUTE is what the formula sees, RESULT what it yields.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/math.wgsl

alias Vec = vec4<${COMPUTE}>;

struct Params {
    quads: u32,
    a: ${SCALAR}, // scalar arguments of the op, where it has any
    b: ${SCALAR},
    c: ${SCALAR},
}

@group(0) @binding(0) var<storage, read> input: array<quad_${IN}>;
@group(0) @binding(1) var<storage, read_write> output: array<quad_${OUT}>;
@group(0) @binding(2) var<uniform> params: Params;

fn formula(x: Vec, a: ${SCALAR}, b: ${SCALAR}, c: ${SCALAR}) -> vec4<${RESULT}> {
    return ${FORMULA};
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    let x = load_${IN}_as_${COMPUTE}(input[quad]);
    output[quad] = store_${RESULT}_as_${OUT}(formula(x, params.a, params.b, params.c));
}
