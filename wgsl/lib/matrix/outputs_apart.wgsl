// Three linear layers that write an output each.

@group(0) @binding(4) var<storage, read_write> output: array<Out>;
@group(0) @binding(5) var<storage, read_write> second_output: array<Out>;
@group(0) @binding(6) var<storage, read_write> third_output: array<Out>;
@group(0) @binding(7) var<uniform> params: Params;

fn write_output(matrix: u32, at: u32, sum: f32) {
    if (matrix == 0u) {
        output[at] = Out(sum);
    } else if (matrix == 1u) {
        second_output[at] = Out(sum);
    } else {
        third_output[at] = Out(sum);
    }
}
