// Moving elements whatever their type: 16 bytes at once, 4 bytes, or single bytes.
//
// UNIT is vec4<u32> or u32, so NaN payloads and -0.0 arrive as they were. With BYTES, elements are
// single bytes, and an invocation gathers four of them: no two may write to one word.
// The kernel has a function `fetch(element: u32) -> Unit`: what belongs at `element` of the output,
// counted in units; with BYTES counted in bytes, and the byte in the lowest bits.

alias Unit = ${UNIT};
override BYTES: bool;

fn unit_of(element: u32) -> u32 {
    return select(element, element / 4u, BYTES);
}

fn part_of(unit: Unit, element: u32) -> Unit {
    if (BYTES) {
        return (unit >> Unit(8u * (element % 4u))) & Unit(0xffu);
    }
    return unit;
}

// A whole unit of an output that has `elements` bytes (looked at with BYTES only).
fn gathered(unit: u32, elements: u32) -> Unit {
    if (!BYTES) {
        return fetch(unit);
    }
    var word = Unit();
    for (var lane = 0u; lane < 4u; lane++) {
        word |= fetch(min(unit * 4u + lane, elements - 1u)) << Unit(8u * lane);
    }
    return word;
}
