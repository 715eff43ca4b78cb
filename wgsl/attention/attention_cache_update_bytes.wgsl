// Writes new rows of bytes into their cache, from the live position on, where a position is not whole words: an invocation
// per word of the cache, which leaves the bytes of other positions as they are. So no two write to one word.

// use lib/grid.wgsl
// use lib/elements.wgsl

struct Params {
    words: u32, // of the cache
    size: u32, // bytes of a position
    positions: u32, // of the cache
    tokens: u32,
}

@group(0) @binding(0) var<storage, read> new_values: array<u32>;
@group(0) @binding(1) var<storage, read_write> cache: array<u32>;
@group(0) @binding(2) var<uniform> position: vec4<i32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let index = flat_index(invocation, workgroups);
    if (index >= params.words) {
        return;
    }
    let start = u32(position.x);
    var word = 0u;
    var written = 0u;
    for (var lane = 0u; lane < 4u; lane++) {
        let byte = index * 4u + lane;
        let line = byte / params.size;
        let at = line % params.positions;
        if (at >= start && at < start + params.tokens) {
            let source = (line / params.positions * params.tokens + at - start) * params.size + byte % params.size;
            word |= pick_u8(new_values[source / 4u], source) << (8u * lane);
            written |= 0xffu << (8u * lane);
        }
    }
    if (written != 0u) {
        cache[index] = (cache[index] & ~written) | word;
    }
}
