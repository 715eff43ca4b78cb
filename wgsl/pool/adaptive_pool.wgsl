// Average pooling to a given size, a quad of the output per invocation. Three dims are pooled: depth,
// height and width, of which the first may have one element.

// use lib/grid.wgsl
// use lib/quotient.wgsl

alias Stored = ${FLOAT};

struct Params {
    in_size: vec3<u32>,
    quads: u32,
    out_size: vec3<u32>,
    elements: u32,
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read_write> output: array<vec4<Stored>>;
@group(0) @binding(2) var<uniform> params: Params;

fn average(element: u32) -> f32 {
    let out = params.out_size;
    let size = params.in_size;
    let place = vec3<u32>(element / (out.z * out.y) % out.x, element / out.z % out.y, element % out.z);
    let base = element / (out.x * out.y * out.z) * size.x * size.y * size.z;
    let begin = place * size / out;
    let end = ((place + 1u) * size + out - 1u) / out;
    var sum = 0.0; // in this order: see adaptive_pool.py
    for (var depth = begin.x; depth < end.x; depth++) {
        for (var row = begin.y; row < end.y; row++) {
            let at = base + (depth * size.y + row) * size.z;
            for (var column = begin.z; column < end.z; column++) {
                sum += f32(input[at + column]);
            }
        }
    }
    let extent = vec3<f32>(end - begin);
    return exact_quotient_f32(sum, extent.x * extent.y * extent.z);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    var values = vec4<f32>();
    for (var lane = 0u; lane < 4u; lane++) {
        values[lane] = average(min(quad * 4u + lane, params.elements - 1u));
    }
    output[quad] = vec4<Stored>(values);
}
