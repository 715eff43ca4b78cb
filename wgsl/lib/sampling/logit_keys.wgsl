// Keys that order as logits do, and the distance of a token below the largest. The counterpart of
// pysrc/webpte/engine/ops/sampling/sample_numpy.py, bit for bit.

const NAN_KEY = 0u;
const MINUS_INFINITY_KEY = 1u; // of -inf
const ZERO_KEY = 0x80000000u;
const LARGEST = 0x7e800000u; // 2^126: sums and differences of two are finite
const SMALLEST_NORMAL = 0x00800000u; // a GPU may take less for 0

fn key_of(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return NAN_KEY;
    }
    if (bits == 0xff800000u) {
        return MINUS_INFINITY_KEY;
    }
    let size = select(min(magnitude, LARGEST), 0u, magnitude < SMALLEST_NORMAL);
    return select(ZERO_KEY + size, ZERO_KEY - size, bits != magnitude);
}

fn number_of(key: u32) -> f32 {
    return bitcast<f32>(select((ZERO_KEY - key) | 0x80000000u, key - ZERO_KEY, key >= ZERO_KEY));
}

const LOG2_E = 1.442695f;
const MAX_DISTANCE = 64u << 24u;

// log2(largest probability / probability) in Q24; FAR at most.
fn distance_below(top: u32, key: u32, factor: f32) -> u32 {
    let below = min((number_of(top) - number_of(key)) * factor, 64.0);
    return select(u32(below * 16777216.0), MAX_DISTANCE, key <= MINUS_INFINITY_KEY);
}
