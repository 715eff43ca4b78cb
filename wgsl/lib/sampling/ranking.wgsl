// The next best pair after a given one: pairs of lib/reduce/argreduce.wgsl are totally ordered, and no
// two are equal.

const EVERYTHING = vec2u(0xffffffffu, 0u); // comes before all pairs

fn is_after(last: vec2u, pair: vec2u) -> bool {
    return pair.x < last.x || (pair.x == last.x && pair.y > last.y);
}
