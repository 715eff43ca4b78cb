// Adds up the parts of the sums of joined weights, and writes each weight's columns, with its bias, to its own output or
// one weight's after the other's. See gemm_split_k_sum.wgsl and linear_q4_multi_matrix.wgsl.

// use lib/grid.wgsl
// use lib/gemm/gemm.wgsl

struct Params {
    gemm: Gemm, // n of all, each filled up to whole tiles
    // Of each matrix: columns, its first one among all, stride of its scales, and whether it has a bias
    matrices: array<vec4<u32>, 3>,
}

@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<Stored>;
@group(0) @binding(2) var<storage, read> second_bias: array<Stored>;
@group(0) @binding(3) var<storage, read> third_bias: array<Stored>;
// use lib/matrix/outputs_${OUTPUTS}.wgsl

fn bias_at(matrix: u32, column: u32) -> f32 {
    if (params.matrices[matrix].w == 0u) {
        return 0.0;
    }
    if (matrix == 0u) {
        return f32(bias[column]);
    }
    if (matrix == 1u) {
        return f32(second_bias[column]);
    }
    return f32(third_bias[column]);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    let gemm = params.gemm;
    let size = gemm.m * gemm.n;
    let joined = element % gemm.n;
    let matrix = u32(joined >= params.matrices[1].y) + u32(joined >= params.matrices[2].y);
    let shape = params.matrices[matrix];
    let column = joined - shape.y;
    if (element >= size || column >= shape.x) {
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < gemm.k_parts; i++) {
        sum += parts[i * size + element];
    }
    sum += bias_at(matrix, column);
    let at = element / gemm.n * shape.x + column;
    write_output(matrix, at, sum);
}
