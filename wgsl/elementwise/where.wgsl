// output[i] = condition[..] ? x[..] : y[..], with broadcasting; a quad of the output per invocation.
//
// Where x, y and the output hold one type, 4-byte elements move as i32 bits, so that NaN payloads
// and -0.0 arrive as they were.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/axes.wgsl

alias Vec = vec4<${COMPUTE}>;

// How an operand is read: like the output, as one element for all, or through the axes.
const FLAT = 0u;
const SINGLE = 1u;
override CONDITION_MODE: u32;
override X_MODE: u32;
override Y_MODE: u32;

struct Params {
    quads: u32,
    rank: u32,
    axes: array<vec4<u32>, MAX_AXES>, // strides of the condition, of x and of y
}

@group(0) @binding(0) var<storage, read> condition: array<quad_${CONDITION}>;
@group(0) @binding(1) var<storage, read> x: array<quad_${X}>;
@group(0) @binding(2) var<storage, read> y: array<quad_${Y}>;
@group(0) @binding(3) var<storage, read_write> output: array<quad_${OUT}>;
@group(0) @binding(4) var<uniform> params: Params;

fn condition_at(element: u32) -> bool { return load_${CONDITION}_as_bool(condition[element / 4u])[element % 4u]; }
fn x_at(element: u32) -> ${COMPUTE} { return load_${X}_as_${COMPUTE}(x[element / 4u])[element % 4u]; }
fn y_at(element: u32) -> ${COMPUTE} { return load_${Y}_as_${COMPUTE}(y[element / 4u])[element % 4u]; }

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    // Offsets of the condition, x and y, for each of the four elements.
    var offsets = array<vec3<u32>, 4>();
    if (max(CONDITION_MODE, max(X_MODE, Y_MODE)) > SINGLE) {
        var axes = params.axes;
        for (var lane = 0u; lane < 4u; lane++) {
            offsets[lane] = strided_offsets(quad * 4u + lane, params.rank, &axes);
        }
    }
    var chosen = vec4<bool>();
    if (CONDITION_MODE == FLAT) {
        chosen = load_${CONDITION}_as_bool(condition[quad]);
    } else {
        chosen = vec4<bool>(
            condition_at(offsets[0].x),
            condition_at(offsets[1].x),
            condition_at(offsets[2].x),
            condition_at(offsets[3].x),
        );
    }
    var left = Vec();
    if (X_MODE == FLAT) {
        left = load_${X}_as_${COMPUTE}(x[quad]);
    } else {
        left = Vec(x_at(offsets[0].y), x_at(offsets[1].y), x_at(offsets[2].y), x_at(offsets[3].y));
    }
    var right = Vec();
    if (Y_MODE == FLAT) {
        right = load_${Y}_as_${COMPUTE}(y[quad]);
    } else {
        right = Vec(y_at(offsets[0].z), y_at(offsets[1].z), y_at(offsets[2].z), y_at(offsets[3].z));
    }
    output[quad] = store_${COMPUTE}_as_${OUT}(select(right, left, chosen));
}
