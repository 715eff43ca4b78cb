// One step of AdamW in place, a quad per invocation. FLOAT is the stored type: f32 or f16.

// use lib/grid.wgsl

alias Stored = vec4<${FLOAT}>;

struct Params {
    quads: u32,
    keep: f32, // 1 - learning rate * weight decay
    beta1: f32,
    rest1: f32, // 1 - beta1
    beta2: f32,
    rest2: f32,
    rate: f32, // learning rate / first bias correction
    correction: f32, // 1 / second bias correction
    eps: f32,
}

@group(0) @binding(0) var<storage, read_write> parameters: array<Stored>;
@group(0) @binding(1) var<storage, read_write> first_moments: array<Stored>;
@group(0) @binding(2) var<storage, read_write> second_moments: array<Stored>;
@group(0) @binding(3) var<storage, read> gradient: array<Stored>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    let g = vec4f(gradient[quad]);
    let m = params.beta1 * vec4f(first_moments[quad]) + params.rest1 * g;
    let v = params.beta2 * vec4f(second_moments[quad]) + params.rest2 * g * g;
    first_moments[quad] = Stored(m);
    second_moments[quad] = Stored(v);
    let change = params.rate * m / (sqrt(v * params.correction) + params.eps);
    parameters[quad] = Stored(params.keep * vec4f(parameters[quad]) - change);
}
