// Pairs of key and index: the larger key is better, and of equal ones the smaller index.

alias Reduced = vec2u;

const NOTHING = vec2u(0u, 0xffffffffu);

fn combine(a: vec2u, b: vec2u) -> vec2u {
    return select(a, b, b.x > a.x || (b.x == a.x && b.y < a.y));
}
