// A running maximum and the sum of exp(x - maximum), as a pair.
//
// It starts at the lowest finite number: then no difference is inf - inf, and a row of nothing but
// -inf still ends as 0 / 0, which is what torch makes of it.

alias Folded = vec2f;

const NO_EXPONENTIALS = vec2f(-0x1.fffffep+127f, 0.0);

fn combine(a: vec2f, b: vec2f) -> vec2f {
    let maximum = max(a.x, b.x);
    return vec2f(maximum, a.y * exp(a.x - maximum) + b.y * exp(b.x - maximum));
}

fn with_item(so_far: vec2f, x: ${ITEM}) -> vec2f {
    let maximum = max(so_far.x, max_${ITEM}(x));
    return vec2f(maximum, so_far.y * exp(so_far.x - maximum) + sum_${ITEM}(exp(x - maximum)));
}
