// Random words by counting: Threefry-2x32 with 20 rounds (Salmon and others, "Parallel random
// numbers: as easy as 1, 2, 3", 2011). It adds, rotates and xors 32-bit words.

const PARITY = 0x1bd11bdau; // Skein's

fn rotate_left(word: u32, bits: u32) -> u32 { return (word << bits) | (word >> (32u - bits)); }

fn threefry_round(pair: vec2u, bits: u32) -> vec2u {
    let sum = pair.x + pair.y;
    return vec2u(sum, rotate_left(pair.y, bits) ^ sum);
}

// The rounds in groups of four, after each of which the keys are added, each time others.
fn threefry(key: vec2u, counter: vec2u) -> vec2u {
    var keys = vec3u(key, key.x ^ key.y ^ PARITY);
    var pair = counter + keys.xy;
    for (var group = 1u; group <= 5u; group++) {
        let bits = select(vec4u(17u, 29u, 16u, 24u), vec4u(13u, 15u, 26u, 6u), group % 2u == 1u);
        pair = threefry_round(threefry_round(threefry_round(threefry_round(pair, bits.x), bits.y), bits.z), bits.w);
        keys = keys.yzx;
        pair += keys.xy + vec2u(0u, group);
    }
    return pair;
}
