// Elements written at the places that indices along the last dim name, each place at most once: an
// index per invocation. A negative index counts from the end if WRAPS; one out of range sets the index flag.

// use lib/grid.wgsl
// use lib/index_flag.wgsl

alias Stored = ${FLOAT};

struct Params {
    count: u32, // of indices
    row: u32, // indices of a row
    flag: u32,
    size: i32, // elements of a row of the output
}

@group(0) @binding(0) var<storage, read> source: array<Stored>;
@group(0) @binding(1) var<storage, read> indices: array<i32>;
@group(0) @binding(2) var<storage, read_write> output: array<Stored>;
@group(0) @binding(3) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let number = flat_index(invocation, workgroups);
    if (number >= params.count) {
        return;
    }
    let size = vec4<i32>(params.size);
    let index = from_start(vec4<i32>(indices[number]), size);
    if (is_inside(index, size)) {
        output[number / params.row * u32(params.size) + u32(index.x)] = source[number];
    }
}
