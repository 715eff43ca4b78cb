// Element-wise kernels of two tensors, with broadcasting: output[i] = f(x[..], y[..]),
// a quad of the output per invocation.
//
// X and Y are the stored types, COMPUTE is what the formula sees, RESULT what it yields.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/math.wgsl
// use lib/remainder.wgsl
// use lib/axes.wgsl

alias Vec = vec4<${COMPUTE}>;

// How an operand is read: like the output, as one element for all, or through the axes.
const FLAT = 0u;
const SINGLE = 1u;
override X_MODE: u32;
override Y_MODE: u32;

struct Params {
    quads: u32,
    rank: u32,
    alpha: ${SCALAR},
    axes: array<vec4<u32>, MAX_AXES>,
}

@group(0) @binding(0) var<storage, read> x: array<quad_${X}>;
@group(0) @binding(1) var<storage, read> y: array<quad_${Y}>;
@group(0) @binding(2) var<storage, read_write> output: array<quad_${OUT}>;
@group(0) @binding(3) var<uniform> params: Params;

fn x_at(element: u32) -> ${COMPUTE} { return load_${X}_as_${COMPUTE}(x[element / 4u])[element % 4u]; }
fn y_at(element: u32) -> ${COMPUTE} { return load_${Y}_as_${COMPUTE}(y[element / 4u])[element % 4u]; }

fn formula(x: Vec, y: Vec, alpha: ${SCALAR}) -> vec4<${RESULT}> {
    return ${FORMULA};
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    var x_offsets = vec4<u32>();
    var y_offsets = vec4<u32>();
    if (X_MODE > SINGLE || Y_MODE > SINGLE) {
        var axes = params.axes;
        for (var lane = 0u; lane < 4u; lane++) {
            let offsets = strided_offsets(quad * 4u + lane, params.rank, &axes);
            x_offsets[lane] = offsets.x;
            y_offsets[lane] = offsets.y;
        }
    }
    var left = Vec();
    if (X_MODE == FLAT) {
        left = load_${X}_as_${COMPUTE}(x[quad]);
    } else {
        left = Vec(x_at(x_offsets.x), x_at(x_offsets.y), x_at(x_offsets.z), x_at(x_offsets.w));
    }
    var right = Vec();
    if (Y_MODE == FLAT) {
        right = load_${Y}_as_${COMPUTE}(y[quad]);
    } else {
        right = Vec(y_at(y_offsets.x), y_at(y_offsets.y), y_at(y_offsets.z), y_at(y_offsets.w));
    }
    output[quad] = store_${RESULT}_as_${OUT}(formula(left, right, params.alpha));
}
