// One input of a concatenation whose inputs have several types: its elements, as the output holds
// them, go to columns `first` to `end` of the output's rows. A quad of the output per invocation.

// use lib/grid.wgsl
// use lib/quads.wgsl

struct Params {
    quads: u32,
    columns: u32, // of a row of the output
    first: u32,
    end: u32,
}

@group(0) @binding(0) var<storage, read> input: array<quad_${IN}>;
@group(0) @binding(1) var<storage, read_write> output: array<quad_${OUT}>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    // Columns of other dispatches stay unchanged.
    var values = load_${OUT}_as_${COMPUTE}(output[quad]);
    var found = false;
    for (var lane = 0u; lane < 4u; lane++) {
        let element = quad * 4u + lane;
        let column = element % params.columns;
        if (column >= params.first && column < params.end) {
            let at = element / params.columns * (params.end - params.first) + column - params.first;
            values[lane] = load_${IN}_as_${COMPUTE}(input[at / 4u])[at % 4u];
            found = true;
        }
    }
    if (found) {
        output[quad] = store_${COMPUTE}_as_${OUT}(values);
    }
}
