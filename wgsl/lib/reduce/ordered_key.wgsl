// A key that orders as numbers do, with -0.0 as 0.0 and NaN above all; it is neither 0 nor 0xffffffff.

fn ordered_key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0xff800001u;
    }
    return select(magnitude | 0x80000000u, ~bits, bits > 0x80000000u);
}
