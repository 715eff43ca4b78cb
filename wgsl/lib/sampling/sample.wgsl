// Common parts of the sampler's kernels. The counterpart of pysrc/webpte/engine/ops/sampling/sample_numpy.py, bit for bit.
//
// The kernel has `settings: array<${SETTING}>`, eight to a row of logits, and `tops: array<u32>`, the largest key of
// each part, and in its params `parts`. It sets `row`.

// use lib/sampling/logit_keys.wgsl
// use lib/fixed_point.wgsl
// use lib/quotient.wgsl
// use lib/reduce/argreduce.wgsl
// use lib/reduce/row_reduction.wgsl

var<private> row: u32; // of the logits; each has workgroups of its own, by z

fn setting(index: u32) -> f32 { return f32(settings[row * 8u + index]); }

// The penalty of a repeated token. Infinities stay.
fn penalized(key: u32) -> u32 {
    let penalty = setting(4u);
    if (key <= MINUS_INFINITY_KEY || key == ZERO_KEY + LARGEST || !(penalty > 0.0)) {
        return key;
    }
    let x = number_of(key);
    return key_of(select(x * penalty, exact_quotient_f32(x, penalty), x > 0.0));
}

fn is_greedy(top: u32) -> bool { return top <= MINUS_INFINITY_KEY || !(setting(0u) > 0.0); }

// Factor from a difference of logits to one of binary logarithms.
fn log2_per_logit() -> f32 {
    return exact_quotient_f32(LOG2_E, clamp(setting(0u), 1e-30, 1e30));
}

// The largest key of all, for all threads.
fn top_key(place: Place) -> u32 {
    var top = NOTHING;
    for (var i = place.lane; i < params.parts; i += LANES) {
        top = combine(top, vec2u(tops[row * params.parts + i], 0u));
    }
    return reduce_lanes(top, place).x;
}
