// Elements picked by index tensors: gather, index, index_select, embedding.
// output[i] = source[sum of coordinate * stride + sum of index * its stride], a unit of the output
// per invocation. A negative index counts from the end if WRAPS; one out of range sets the index flag.
// A table in several buffers takes a dispatch for each: elements of rows that are elsewhere are 0,
// and what the dispatches before have written stays.

// use lib/grid.wgsl
// use lib/move_units.wgsl
// use lib/indices.wgsl

const MAX_AXES = 16u;

override IN_PARTS: bool = false; // whether the source has only some rows of the table

// Sizes and strides of the source are in units; in parts with PARTS.
struct Params {
    units: u32,
    elements: u32,
    rank: u32,
    flag: u32,
    sizes: vec4<i32>, // of the indexed dims; 1 for absent ones
    strides: vec4<i32>, // of the indexed dims in the source; 0 for absent ones
    axes: array<vec4<i32>, MAX_AXES>, // (size, stride of the source), outermost first
    index_strides: array<vec4<i32>, MAX_AXES>, // of the same axes, in each index tensor
    first_row: i32, // of the source, in the table
    rows: i32, // of the source
    is_added: u32, // whether other parts have been written before
}

@group(0) @binding(0) var<storage, read> source: array<Unit>;
@group(0) @binding(1) var<storage, read> first: array<i32>;
@group(0) @binding(2) var<storage, read> second: array<i32>;
@group(0) @binding(3) var<storage, read> third: array<i32>;
@group(0) @binding(4) var<storage, read> fourth: array<i32>;
@group(0) @binding(5) var<storage, read_write> output: array<Unit>;
@group(0) @binding(6) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(7) var<uniform> params: Params;

fn fetch(element: u32) -> Unit {
    var rest = element;
    var at = 0;
    var places = vec4<i32>();
    for (var i = params.rank; i > 0u; i--) {
        let axis = params.axes[i - 1u];
        let coordinate = i32(rest % u32(axis.x));
        at += coordinate * axis.y;
        places += coordinate * params.index_strides[i - 1u];
        rest /= u32(axis.x);
    }
    var indices = indices_at(places);
    if (!is_inside(indices, params.sizes)) {
        return Unit();
    }
    if (IN_PARTS) {
        indices.x -= params.first_row;
        if (indices.x < 0 || indices.x >= params.rows) {
            return Unit();
        }
    }
    at += dot(indices, params.strides);
    return part_of(source[unit_of(u32(at))], u32(at));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit >= params.units) {
        return;
    }
    let found = gathered(unit, params.elements);
    if (IN_PARTS && params.is_added != 0u) {
        output[unit] |= found;
    } else {
        output[unit] = found;
    }
}
