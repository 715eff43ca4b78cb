// Keys that order as numbers do. Of floats, -0.0 is 0.0 and NaN above all; no such key is 0 or 0xffffffff.

fn ordered_key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0xff800001u;
    }
    return select(magnitude | 0x80000000u, ~bits, bits > 0x80000000u);
}

fn ordered_key_i32(x: i32) -> u32 { return bitcast<u32>(x) ^ 0x80000000u; }
