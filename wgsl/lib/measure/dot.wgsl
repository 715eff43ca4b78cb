// The rate of packed dot products in registers: 8 chains of 4 in each invocation.

@group(0) @binding(0) var<storage, read_write> output: array<i32>;

override LOOPS: u32;

fn products(a: vec4<u32>, b: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(dot4I8Packed(a.x, b.x), dot4I8Packed(a.y, b.y), dot4I8Packed(a.z, b.z), dot4I8Packed(a.w, b.w));
}

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let factor = vec4<u32>(id.x * 77u, id.x * 91u, id.x * 13u, id.x * 3u);
    var sums: array<vec4<i32>, 8>;
    sums[0] = bitcast<vec4<i32>>(factor + 1u);
    sums[1] = bitcast<vec4<i32>>(factor + 2u);
    sums[2] = bitcast<vec4<i32>>(factor + 3u);
    sums[3] = bitcast<vec4<i32>>(factor + 4u);
    sums[4] = bitcast<vec4<i32>>(factor + 5u);
    sums[5] = bitcast<vec4<i32>>(factor + 6u);
    sums[6] = bitcast<vec4<i32>>(factor + 7u);
    sums[7] = bitcast<vec4<i32>>(factor + 8u);
    for (var i = 0u; i < LOOPS; i++) {
        sums[0] += products(bitcast<vec4<u32>>(sums[0].yzwx), factor);
        sums[1] += products(bitcast<vec4<u32>>(sums[1].yzwx), factor);
        sums[2] += products(bitcast<vec4<u32>>(sums[2].yzwx), factor);
        sums[3] += products(bitcast<vec4<u32>>(sums[3].yzwx), factor);
        sums[4] += products(bitcast<vec4<u32>>(sums[4].yzwx), factor);
        sums[5] += products(bitcast<vec4<u32>>(sums[5].yzwx), factor);
        sums[6] += products(bitcast<vec4<u32>>(sums[6].yzwx), factor);
        sums[7] += products(bitcast<vec4<u32>>(sums[7].yzwx), factor);
    }
    let total = sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
    output[id.x] = total.x ^ total.y ^ total.z ^ total.w;
}
