// Values in f16, four to a unit: quads of the value that begins at a unit, with zeros past the end of a head. The kernel
// declares `v`, an array of CacheUnit.

fn cached_value(start: u32, quad: u32) -> vec4<f32> {
    return unpack_f16(v[start + quad]);
}
