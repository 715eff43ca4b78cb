// Looks up the colours of a part of a picture in a table of floats, a pixel per invocation: its three
// channels go to three planes. The last column of the table is for pixels outside of the picture.

// use lib/grid.wgsl

const OUTSIDE = 256u;
const COLUMNS = OUTSIDE + 1u;

struct Params {
    pixels: u32, // of the part
    width: u32, // of the part
    top: i32,
    left: i32,
    rows: i32, // of the picture
    columns: i32,
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<${FLOAT}>;
@group(0) @binding(2) var<storage, read_write> output: array<${FLOAT}>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let pixel = flat_index(invocation, workgroups);
    if (pixel >= params.pixels) {
        return;
    }
    let row = params.top + i32(pixel / params.width);
    let column = params.left + i32(pixel % params.width);
    var colours = vec3<u32>(OUTSIDE);
    if (row >= 0 && row < params.rows && column >= 0 && column < params.columns) {
        let word = input[u32(row * params.columns + column)];
        colours = vec3<u32>(word & 0xffu, (word >> 8u) & 0xffu, (word >> 16u) & 0xffu);
    }
    output[pixel] = table[colours.x];
    output[pixel + params.pixels] = table[COLUMNS + colours.y];
    output[pixel + 2u * params.pixels] = table[2u * COLUMNS + colours.z];
}
