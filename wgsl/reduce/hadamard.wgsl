// One pass of a Hadamard transform: each element becomes a sum of `terms` elements, `distance`
// apart, with signs of a Hadamard matrix. The matrix of a power of two has the sign of the parity of
// the bits that row and column have in common; that of order 28 is given.

// use lib/grid.wgsl

override MIXES: bool; // by the matrix of order 28

struct Params {
    elements: u32,
    terms: u32,
    distance: u32,
    scale: f32,
    signs: array<vec4<u32>, 7>, // of the matrix of order 28, a word per row
}

@group(0) @binding(0) var<storage, read> input: array<${IN}>;
@group(0) @binding(1) var<storage, read_write> output: array<${OUT}>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element >= params.elements) {
        return;
    }
    let row = element / params.distance % params.terms;
    let first = element - row * params.distance;
    let signs = params.signs[row / 4u % 7u][row % 4u];
    var sum = 0.0;
    for (var column = 0u; column < params.terms; column++) {
        let value = f32(input[first + column * params.distance]);
        var negative = countOneBits(row & column) & 1u;
        if (MIXES) {
            negative = (signs >> column) & 1u;
        }
        sum += select(value, -value, negative == 1u);
    }
    output[element] = ${OUT}(sum * params.scale);
}
