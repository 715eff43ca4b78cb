// Three linear layers that write f32 to one output, one after the other.

@group(0) @binding(4) var<storage, read_write> output: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

fn write_output(matrix: u32, at: u32, sum: f32) {
    var before = 0u; // columns
    for (var i = 0u; i < matrix; i++) {
        before += params.matrices[i].x;
    }
    output[params.gemm.m * before + at] = sum;
}
