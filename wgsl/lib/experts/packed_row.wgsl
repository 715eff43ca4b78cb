// Rows of matrices of 4-bit or 8-bit numbers in torchao's universal layout, a matrix per expert: see
// engine/ops/experts/moe_numpy.py. Items are 16 columns of a row.
//
// The kernel has a binding `packed: array<u32>`, and `matrix: PackedMatrix` in its params.

const HEADER_WORDS = 16u;
const MAGIC = 6712u;
const UNIVERSAL = 1u;
const BLOCK_ROWS = 8u;
override BITS: u32; // of a number: 4 or 8

struct PackedMatrix {
    words: u32, // of an expert
    items: u32, // of a row
    group_items: u32, // that share a scale
    nan: f32,
}

const BYTE_ENDS = vec4<u32>(24u, 16u, 8u, 0u);
const BYTE_STARTS = vec4<u32>(0u, 8u, 16u, 24u);

// The kernel makes NaNs of an expert that is packed in another way.
fn is_universal(expert: u32) -> bool {
    let at = expert * params.matrix.words;
    return packed[at] == MAGIC && packed[at + 1u] == UNIVERSAL;
}

// Words of a group: its blocks, scales and sums.
fn group_words() -> u32 {
    return params.matrix.group_items * 4u * BITS + 2u * BLOCK_ROWS;
}

fn row_start(expert: u32, row: u32) -> u32 {
    let groups = params.matrix.items / params.matrix.group_items;
    return expert * params.matrix.words + HEADER_WORDS + row / BLOCK_ROWS * groups * group_words();
}

fn four_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(word) << BYTE_ENDS) >> vec4<u32>(24u));
}

fn four_halves(word: u32, shift: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word >> shift) >> BYTE_STARTS) & vec4<u32>(15u)) - 8.0;
}

// The product of an item with 16 elements of x; `start` is the row's.
fn item_dot(start: u32, row: u32, item: u32, x: mat4x4<f32>) -> f32 {
    let group = start + item / params.matrix.group_items * group_words();
    let block = group + item % params.matrix.group_items * 4u * BITS;
    let line = row % BLOCK_ROWS;
    var sum = 0.0;
    if (BITS == 4u) {
        // 16 bytes have four rows: two in their low halves, two in the high ones.
        let at = block + line / 4u * 4u + line % 2u * 2u;
        let shift = line / 2u % 2u * 4u;
        sum = dot(four_halves(packed[at], shift), x[0]) + dot(four_halves(packed[at + 1u], shift), x[1]);
        sum += dot(four_halves(packed[at + 8u], shift), x[2]) + dot(four_halves(packed[at + 9u], shift), x[3]);
    } else {
        let at = block + line * 2u;
        sum = dot(four_bytes(packed[at]), x[0]) + dot(four_bytes(packed[at + 1u]), x[1]);
        sum += dot(four_bytes(packed[at + 16u]), x[2]) + dot(four_bytes(packed[at + 17u]), x[3]);
    }
    return sum * bitcast<f32>(packed[group + params.matrix.group_items * 4u * BITS + line]);
}
