// Keys in f16, four to a unit: quads of the key that begins at a unit, with zeros past the end of a head. The kernel
// declares `k`, an array of CacheUnit.

fn cached_key(start: u32, quad: u32) -> vec4<f32> {
    return unpack_f16(k[start + quad]);
}
