// Pairs of elements of queries or keys, [token, head, element], and their rotation. Pairs are neighbours, or (HALF) lie
// half of the rotated elements apart.
//
// The kernel declares the tables `cosines` and `sines`, `position` (of the first token), and in its params `tokens`,
// `rotated` (pairs of a head), `row` and `head` (elements of the tables between tokens, and between heads).

override ROTATE_HALF: bool;

struct Tensor {
    heads: u32,
    size: u32, // elements of a head
    pairs: u32, // of a head, those that are copied too
    units: u32, // pairs of the whole tensor
}

// Where the elements of a pair lie in their tensor, and their angles in the tables.
struct Pair {
    a: u32,
    b: u32,
    count: u32, // of elements: the last of an odd head is alone
    rotates: bool,
    angle_a: u32,
    angle_b: u32,
}

fn pair_of(unit: u32, shape: Tensor) -> Pair {
    let within = unit % shape.pairs;
    let line = unit / shape.pairs;
    let first = line * shape.size;
    if (within >= params.rotated) {
        let element = within * 2u;
        return Pair(first + element, first + element + 1u, min(2u, shape.size - element), false, 0u, 0u);
    }
    let token = line / shape.heads % params.tokens + u32(position.x);
    let angle = token * params.row + line % shape.heads * params.head + within;
    if (ROTATE_HALF) {
        return Pair(first + within, first + within + params.rotated, 2u, true, angle, angle + params.rotated);
    }
    return Pair(first + within * 2u, first + within * 2u + 1u, 2u, true, angle, angle);
}

fn rotate(value: vec2<f32>, pair: Pair) -> vec2<f32> {
    if (!pair.rotates) {
        return value;
    }
    return vec2<f32>(
        value.x * f32(cosines[pair.angle_a]) - value.y * f32(sines[pair.angle_a]),
        value.y * f32(cosines[pair.angle_b]) + value.x * f32(sines[pair.angle_b]),
    );
}
