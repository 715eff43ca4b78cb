// A scale and its inverse, of which either is given; the other is rounded once. Goes with lib/quotient.wgsl.

override INVERTED = false; // the inverse is given

// (scale, 1 / scale)
fn scale_pair(given: f32) -> vec2<f32> {
    let found = exact_quotient_f32(1.0, given);
    return select(vec2<f32>(given, found), vec2<f32>(found, given), INVERTED);
}
