// A running maximum and the sum of exp(x - maximum), as a pair.
//
// It starts at the lowest finite number: then no difference of maxima is inf - inf. A NaN stays the
// maximum, for exp and log of a NaN are not NaN everywhere.

// use lib/items.wgsl

alias Reduced = vec2f;

const NO_EXPONENTIALS = vec2f(-0x1.fffffep+127f, 0.0);

fn combine(a: vec2f, b: vec2f) -> vec2f {
    let maximum = larger_f32(a.x, b.x);
    return vec2f(maximum, a.y * exp(a.x - maximum) + b.y * exp(b.x - maximum));
}

fn with_item(so_far: vec2f, x: ${ITEM}) -> vec2f {
    let maximum = larger_f32(so_far.x, max_${ITEM}(x));
    return vec2f(maximum, so_far.y * exp(so_far.x - maximum) + sum_${ITEM}(exp(x - maximum)));
}

// Rows with a NaN or an inf in them, or with nothing but -inf, have no softmax.
fn is_undefined(row: vec2f) -> bool {
    return (bitcast<u32>(row.x) & 0x7f800000u) == 0x7f800000u || row.y == 0.0;
}
