// Bytes [image, channel, pixel] to words [image, channel / 4, pixel], for q8ta_conv.wgsl: four
// channels of four pixels per invocation. Missing channels are undefined.

// use lib/grid.wgsl
// use lib/bytes.wgsl

override ALIGNED: bool; // planes are whole words
override X_FLIP = 0u; // 0x80808080 makes unsigned bytes signed: 128 less

struct Params {
    images: u32,
    channels: u32,
    pixels: u32,
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

fn pixels_at(byte: u32) -> u32 {
    if (ALIGNED) {
        return input[byte / 4u];
    }
    return joined(input[byte / 4u], input[byte / 4u + 1u], byte);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quads = (params.pixels + 3u) / 4u;
    let words = (params.channels + 3u) / 4u;
    let index = flat_index(invocation, workgroups);
    let pixel = index % quads * 4u;
    let word = index / quads % words;
    let image = index / (quads * words);
    if (image >= params.images) {
        return;
    }
    var rows: vec4<u32>;
    for (var i = 0u; i < 4u; i++) {
        let channel = min(word * 4u + i, params.channels - 1u);
        rows[i] = pixels_at((image * params.channels + channel) * params.pixels + pixel);
    }
    let columns = transposed_bytes(rows);
    let at = (image * words + word) * params.pixels + pixel;
    for (var i = 0u; i < min(4u, params.pixels - pixel); i++) {
        output[at + i] = columns[i] ^ X_FLIP;
    }
}
