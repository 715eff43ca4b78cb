// Several element-wise ops at once: a quad of the output per invocation. STEPS has a function for each
// op, with the formula of its family, and BODY calls them one after the other.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/math.wgsl
// use lib/remainder.wgsl

alias Vec = vec4<f32>;

const MAX_STEPS = 16u;
override SINGLES: u32; // bit i: input i has a single element

struct Params {
    quads: u32,
    scalars: array<vec4<f32>, MAX_STEPS>, // arguments of the steps
}

@group(0) @binding(0) var<storage, read> first: array<quad_${IN}>;
@group(0) @binding(1) var<storage, read> second: array<quad_${IN}>;
@group(0) @binding(2) var<storage, read> third: array<quad_${IN}>;
@group(0) @binding(3) var<storage, read> fourth: array<quad_${IN}>;
@group(0) @binding(4) var<storage, read_write> output: array<quad_${IN}>;
@group(0) @binding(5) var<uniform> params: Params;

${STEPS}

fn given(value: Vec, input: u32) -> Vec {
    return select(value, Vec(value.x), ((SINGLES >> input) & 1u) == 1u);
}

fn place(quad: u32, input: u32) -> u32 {
    return select(quad, 0u, ((SINGLES >> input) & 1u) == 1u);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    let input_0 = given(load_${IN}_as_f32(first[place(quad, 0u)]), 0u);
    let input_1 = given(load_${IN}_as_f32(second[place(quad, 1u)]), 1u);
    let input_2 = given(load_${IN}_as_f32(third[place(quad, 2u)]), 2u);
    let input_3 = given(load_${IN}_as_f32(fourth[place(quad, 3u)]), 3u);
    ${BODY}
    output[quad] = store_f32_as_${IN}(result);
}
