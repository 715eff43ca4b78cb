// Signed bytes, four to a word, with the first in the lowest bits.

const ONES = 0x01010101u;

// Four bytes that start somewhere in `low` and end in `high`; `byte` is the first one's address.
fn joined(low: u32, high: u32, byte: u32) -> u32 {
    let shift = byte % 4u * 8u;
    return (low >> shift) | ((high << 1u) << (31u - shift));
}

fn first_bytes(word: u32, count: u32) -> u32 {
    return select(word & ((1u << (8u * count)) - 1u), word, count >= 4u);
}

// The byte at `byte` of the word that holds it, as a number.
fn signed_byte(word: u32, byte: u32) -> i32 {
    return i32(word << (24u - byte % 4u * 8u)) >> 24u;
}

// Rows of bytes to columns of bytes.
fn transposed_bytes(rows: vec4<u32>) -> vec4<u32> {
    let even = (rows.xz & vec2<u32>(0x00ff00ffu)) | ((rows.yw & vec2<u32>(0x00ff00ffu)) << vec2<u32>(8u));
    let odd = ((rows.xz >> vec2<u32>(8u)) & vec2<u32>(0x00ff00ffu)) | (rows.yw & vec2<u32>(0xff00ff00u));
    return vec4<u32>(
        (even.x & 0xffffu) | (even.y << 16u),
        (odd.x & 0xffffu) | (odd.y << 16u),
        (even.x >> 16u) | (even.y & 0xffff0000u),
        (odd.x >> 16u) | (odd.y & 0xffff0000u),
    );
}

fn dots(words: vec4<u32>, word: u32) -> vec4<i32> {
    return vec4<i32>(
        dot4I8Packed(words.x, word),
        dot4I8Packed(words.y, word),
        dot4I8Packed(words.z, word),
        dot4I8Packed(words.w, word),
    );
}
