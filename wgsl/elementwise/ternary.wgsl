// Element-wise kernels of three tensors, with broadcasting: output[i] = f(x[..], y[..], z[..]),
// a quad of the output per invocation. X, Y, Z and OUT are the stored types; all is computed in f32.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/nan.wgsl
// use lib/axes.wgsl

alias Vec = vec4<f32>;

// How an operand is read: like the output, as one element for all, or through the axes.
const FLAT = 0u;
const SINGLE = 1u;
override X_MODE: u32;
override Y_MODE: u32;
override Z_MODE: u32;

struct Params {
    quads: u32,
    rank: u32,
    value: f32,
    axes: array<vec4<u32>, MAX_AXES>, // strides of x, y and z
}

@group(0) @binding(0) var<storage, read> x: array<quad_${X}>;
@group(0) @binding(1) var<storage, read> y: array<quad_${Y}>;
@group(0) @binding(2) var<storage, read> z: array<quad_${Z}>;
@group(0) @binding(3) var<storage, read_write> output: array<quad_${OUT}>;
@group(0) @binding(4) var<uniform> params: Params;

fn x_at(element: u32) -> f32 { return load_${X}_as_f32(x[element / 4u])[element % 4u]; }
fn y_at(element: u32) -> f32 { return load_${Y}_as_f32(y[element / 4u])[element % 4u]; }
fn z_at(element: u32) -> f32 { return load_${Z}_as_f32(z[element / 4u])[element % 4u]; }

// Computed from the nearer end, so that both ends are exact.
fn interpolated(x: Vec, y: Vec, weight: Vec) -> Vec {
    return select(y - (y - x) * (1.0 - weight), x + weight * (y - x), abs(weight) < Vec(0.5));
}

fn formula(x: Vec, y: Vec, z: Vec, value: f32) -> Vec {
    return ${FORMULA};
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    // Offsets of x, y and z, for each of the four elements.
    var offsets = array<vec3<u32>, 4>();
    if (max(X_MODE, max(Y_MODE, Z_MODE)) > SINGLE) {
        var axes = params.axes;
        for (var lane = 0u; lane < 4u; lane++) {
            offsets[lane] = strided_offsets(quad * 4u + lane, params.rank, &axes);
        }
    }
    var first = Vec();
    if (X_MODE == FLAT) {
        first = load_${X}_as_f32(x[quad]);
    } else {
        first = Vec(x_at(offsets[0].x), x_at(offsets[1].x), x_at(offsets[2].x), x_at(offsets[3].x));
    }
    var second = Vec();
    if (Y_MODE == FLAT) {
        second = load_${Y}_as_f32(y[quad]);
    } else {
        second = Vec(y_at(offsets[0].y), y_at(offsets[1].y), y_at(offsets[2].y), y_at(offsets[3].y));
    }
    var third = Vec();
    if (Z_MODE == FLAT) {
        third = load_${Z}_as_f32(z[quad]);
    } else {
        third = Vec(z_at(offsets[0].z), z_at(offsets[1].z), z_at(offsets[2].z), z_at(offsets[3].z));
    }
    output[quad] = store_f32_as_${OUT}(formula(first, second, third, params.value));
}
