// Queries, keys or values from int8 to floats: (number - zero point) * scale, which each row has one of. A quad per
// invocation. Positions that attention does not read stay as they are.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/elements.wgsl

override SHARED: bool; // the elements of a quad are in one row

struct Params {
    elements: u32,
    size: u32, // elements of a row
    rows_per_position: u32, // heads, or 1 if each head has its positions together
    positions: u32,
    read: u32, // positions that attention reads, plus the live position if `follow` is 1
    follow: u32,
}

@group(0) @binding(0) var<storage, read> numbers: array<quad_i8>;
@group(0) @binding(1) var<storage, read> zero_points: array<word_i8>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> position: vec4<i32>;
@group(0) @binding(5) var<uniform> params: Params;

fn is_read(row: u32) -> bool {
    return row / params.rows_per_position % params.positions < params.read + params.follow * u32(position.x);
}

fn zero_of(row: u32) -> f32 {
    return f32(pick_i8(zero_points[row / per_word_i8], row));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    let element = quad * 4u;
    if (element >= params.elements) {
        return;
    }
    let row = element / params.size;
    var wanted = is_read(row);
    var zero = vec4<f32>(zero_of(row));
    var scale = vec4<f32>(scales[row]);
    if (!SHARED) {
        for (var lane = 1u; lane < 4u; lane++) {
            let own = min(element + lane, params.elements - 1u) / params.size;
            wanted = wanted || is_read(own);
            zero[lane] = zero_of(own);
            scale[lane] = scales[own];
        }
    }
    if (wanted) {
        output[quad] = (load_i8_as_f32(numbers[quad]) - zero) * scale;
    }
}
