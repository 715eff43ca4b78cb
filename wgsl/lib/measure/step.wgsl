// The cost of a dispatch: each adds one to what the dispatch before it wrote.

@group(0) @binding(0) var<storage, read_write> output: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32) {
    output[lane] += 1u;
}
