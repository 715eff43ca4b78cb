// Keys in 8 bits: quads of the key that begins at a unit, with zeros past the end of a head. The first unit of a key
// is the step between its numbers, each other one has four of these. The kernel declares `k`, an array of CacheUnit.

fn cached_key(start: u32, quad: u32) -> vec4<f32> {
    return dequantize_int8(k[start + 1u + quad], k[start]);
}
