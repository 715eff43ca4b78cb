// Moving elements of any type: 16 bytes at once, 4 bytes, or the parts of a word.
//
// UNIT is vec4<u32> or u32, so NaN payloads and -0.0 arrive as they were. With PARTS of 2 or 4,
// elements are f16 or bytes, and an invocation gathers a word of them: no two may write to one word.
// The kernel has a function `fetch(element: u32) -> Unit`: the unit at `element` of the output,
// counted in units; with PARTS counted in parts, and the part in the lowest bits.

alias Unit = ${UNIT};
override PARTS: u32;
override PART_BITS: u32 = 32u / PARTS;
override PART_MASK: u32 = 0xffffffffu >> (32u - PART_BITS);

fn unit_of(element: u32) -> u32 {
    return element / PARTS;
}

fn part_of(unit: Unit, element: u32) -> Unit {
    if (PARTS == 1u) {
        return unit;
    }
    return (unit >> Unit(PART_BITS * (element % PARTS))) & Unit(PART_MASK);
}

// A whole unit of an output that has `elements` parts (used only if PARTS is not 1).
fn gathered(unit: u32, elements: u32) -> Unit {
    if (PARTS == 1u) {
        return fetch(unit);
    }
    var word = Unit();
    for (var lane = 0u; lane < PARTS; lane++) {
        word |= fetch(min(unit * PARTS + lane, elements - 1u)) << Unit(PART_BITS * lane);
    }
    return word;
}
