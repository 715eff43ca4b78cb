// Quads of new keys or values. The kernel declares `new_values`, an array of floats, and has `size` in its params.

// Four elements of a row, with zeros past its end.
fn new_quad(row: u32, quad: u32) -> vec4<f32> {
    let element = quad * 4u + vec4<u32>(0u, 1u, 2u, 3u);
    let at = row * params.size + min(element, vec4<u32>(params.size - 1u));
    let found = vec4<f32>(f32(new_values[at.x]), f32(new_values[at.y]), f32(new_values[at.z]), f32(new_values[at.w]));
    return select(found, vec4<f32>(), element >= vec4<u32>(params.size));
}
