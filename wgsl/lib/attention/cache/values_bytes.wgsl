// Values in 8 bits: quads of the value that begins at a unit, with zeros past the end of a head. The first unit of a value
// is the step between its numbers, each other one has four of these. The kernel declares `v`, an array of CacheUnit.

fn cached_value(start: u32, quad: u32) -> vec4<f32> {
    return dequantize_int8(v[start + 1u + quad], v[start]);
}
