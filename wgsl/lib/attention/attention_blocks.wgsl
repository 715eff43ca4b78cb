// Keys and values as f16 in blocks of 32 keys, as attention_split_f16.wgsl writes them and attention_matrix.wgsl reads them. Goes with
// lib/matrix/f16_scaling.wgsl.
//
// A block is its keys, then its values, each in rounds of 64 elements; a round is the first and, with PARTS of 2, the second f16 of four pairs
// of matrices of 16 x 16. A pair of keys has 32 keys and 16 elements, one of values 32 elements and 16 keys.

const THREADS = 128u;
const KEYS = 32u;
const PARTS = ${PARTS}u; // f16 of a number
const ROUNDS = ${ROUNDS}u; // of the elements of a head
const SPAN = PARTS * 256u; // units of a round
const CHUNK = 2u * ROUNDS * SPAN; // units of a block
const SCALES = KEYS + ROUNDS * 64u; // of a block: those of keys, then those of the elements of values
const WEIGHT_POWER = 14; // weights are multiplied by this power of two, values divided by it

// Numbers below 2^-98 lose digits, so that no scale is too small for f32.
fn scaling_of(largest: u32) -> i32 { return max(exponent_of(largest, LARGEST), -112); }

fn inverse_of(exponent: i32) -> f32 { return power_of_two(select(-exponent, 0, exponent == NOT_FINITE)); }

// 2^(exponent + more), or NaN for what is not finite.
fn scale_of(exponent: i32, more: i32) -> f32 {
    if (exponent == NOT_FINITE) {
        return bitcast<f32>(0x7fc00000u | u32(exponent)); // not as a constant, which WGSL forbids
    }
    return power_of_two(exponent + more);
}
