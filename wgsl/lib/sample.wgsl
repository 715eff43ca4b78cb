// What the kernels that choose a token share: keys that order as logits do, and how far below the
// largest a token is. The counterpart of pysrc/webpte/ops/sample.py, bit for bit.
//
// The kernel has `settings: array<${SETTING}>` and `tops: array<u32>`, the largest key of each part,
// and in its params `parts`.

// use lib/fixed.wgsl
// use lib/quotient.wgsl
// use lib/argreduce.wgsl
// use lib/rows.wgsl

const NAN_KEY = 0u;
const NEVER_KEY = 1u; // of -inf
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
        return NEVER_KEY;
    }
    let size = select(min(magnitude, LARGEST), 0u, magnitude < SMALLEST_NORMAL);
    return select(ZERO_KEY + size, ZERO_KEY - size, bits != magnitude);
}

fn number_of(key: u32) -> f32 {
    return bitcast<f32>(select((ZERO_KEY - key) | 0x80000000u, key - ZERO_KEY, key >= ZERO_KEY));
}

// A token that was there already. Infinities stay.
fn penalized(key: u32) -> u32 {
    let penalty = f32(settings[4]);
    if (key <= NEVER_KEY || key == ZERO_KEY + LARGEST || !(penalty > 0.0)) {
        return key;
    }
    let x = number_of(key);
    return key_of(select(x * penalty, exact_quotient_f32(x, penalty), x > 0.0));
}

fn is_greedy(top: u32) -> bool { return top <= NEVER_KEY || !(f32(settings[0]) > 0.0); }

// Factor from a difference of logits to one of binary logarithms.
fn log2_per_logit() -> f32 {
    return exact_quotient_f32(1.442695, clamp(f32(settings[0]), 1e-30, 1e30));
}

const FAR = 64u << 24u;

// How many times less probable than the largest, as a binary logarithm in Q24; FAR at most.
fn distance_below(top: u32, key: u32, factor: f32) -> u32 {
    let below = min((number_of(top) - number_of(key)) * factor, 64.0);
    return select(u32(below * 16777216.0), FAR, key <= NEVER_KEY);
}

// The largest key of all, for all threads.
fn top_key(place: Place) -> u32 {
    var top = NOTHING;
    for (var i = place.lane; i < params.parts; i += LANES) {
        top = combine(top, vec2u(tops[i], 0u));
    }
    return fold(top, place).x;
}
