// Bytes looked up in a table of 256: a word of four per invocation.

// use lib/grid.wgsl
// use lib/quads.wgsl

struct Params {
    words: u32,
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read> entries: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

fn entry(byte: u32) -> u32 {
    return entries[byte / 4u] >> (8u * (byte % 4u));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let word = flat_index(invocation, workgroups);
    if (word >= params.words) {
        return;
    }
    let bytes = bytes_of(input[word]);
    output[word] = word_of(vec4<u32>(entry(bytes.x), entry(bytes.y), entry(bytes.z), entry(bytes.w)));
}
