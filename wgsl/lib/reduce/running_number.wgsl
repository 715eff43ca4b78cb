// Cumulative sums or products, in ACC, which is f32 or i32.

// use lib/elements.wgsl

@group(0) @binding(0) var<storage, read> input: array<word_${IN}>;
@group(0) @binding(1) var<storage, read_write> output: array<${OUT}>;
@group(0) @binding(2) var<uniform> params: Params;

alias Total = ${ACC};

const NOTHING = ${ACC}(${START});

fn joined(before: Total, after: Total) -> Total { return before ${OPERATOR} after; }

fn total_at(at: u32, place: u32) -> Total { return ${ACC}(pick_${IN}(input[at / per_word_${IN}], at)); }

fn put(at: u32, base: u32, total: Total) { output[at] = ${OUT}(total); }
