// Adds up the parts that a product was cut into along k. Its matrices follow one another in
// `parts`: all batches of the first part, then all batches of the second, and so on.

// use lib/grid.wgsl
// use lib/gemm/gemm.wgsl

struct Params {
    product: Product,
}

@group(0) @binding(0) var<storage, read> parts: array<Number>;
@group(0) @binding(1) var<storage, read> addend: array<Stored>;
@group(0) @binding(2) var<storage, read_write> output: array<Out>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    let product = params.product;
    let size = product.batches * product.m * product.n;
    if (element >= size) {
        return;
    }
    var sum = Number();
    for (var i = 0u; i < product.k_parts; i++) {
        sum += parts[i * size + element];
    }
    let row = element / product.n % product.m;
    let column = element % product.n;
    let added = Number(addend[row * product.addend_row + column * product.addend_column]);
    output[element] = Out(product.alpha * sum + product.beta * added);
}
