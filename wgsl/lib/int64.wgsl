// Integers of 64 bits, as pairs (low, high), and products of two words.

fn mul_hi(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (cross >> 16u) + (other >> 16u);
}

fn add_u64(a: vec2u, b: vec2u) -> vec2u {
    let low = a.x + b.x;
    return vec2u(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn subtract_u64(a: vec2u, b: vec2u) -> vec2u {
    return vec2u(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn is_less(a: vec2u, b: vec2u) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }

// a * b / 2^32
fn scale_u64(a: vec2u, b: u32) -> vec2u {
    return add_u64(vec2u(a.y * b, mul_hi(a.y, b)), vec2u(mul_hi(a.x, b), 0u));
}
