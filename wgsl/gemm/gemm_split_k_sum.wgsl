// Adds up the parts of a split-K GEMM. Their matrices follow one another in `parts`: all batches of the first part, then all batches of the second, and so on.

// use lib/grid.wgsl
// use lib/gemm/gemm.wgsl

struct Params {
    gemm: Gemm,
}

@group(0) @binding(0) var<storage, read> parts: array<Number>;
@group(0) @binding(1) var<storage, read> addend: array<Stored>;
@group(0) @binding(2) var<storage, read_write> output: array<Out>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    let gemm = params.gemm;
    let size = gemm.batches * gemm.m * gemm.n;
    if (element >= size) {
        return;
    }
    var sum = Number();
    for (var i = 0u; i < gemm.k_parts; i++) {
        sum += parts[i * size + element];
    }
    let row = element / gemm.n % gemm.m;
    let column = element % gemm.n;
    let added = Number(addend[row * gemm.addend_row + column * gemm.addend_column]);
    output[element] = Out(gemm.alpha * sum + gemm.beta * added);
}
