// Masks: causal, added and boolean; windows, and the soft cap of logits. Goes with lib/attention/attention.wgsl and lib/quads.wgsl; the kernel declares
// `mask`, quads of MASK_TYPE.

override MASK: u32; // one of the following
const NO_MASK = 0u;
const ADDED = 1u;
const BOOLEAN = 2u; // true takes part

const MINUS_INFINITY = 0xff800000u;

// tanh(10) is 1 as a float; beyond, some GPUs compute infinity / infinity.
fn soft_capped(logit: f32) -> f32 {
    return params.soft_cap * tanh(clamp(logit / params.soft_cap, -10.0, 10.0));
}

// The logit, or EXCLUDED for keys after the query or before its window, keys from `end` on, and masked keys.
fn masked(logit: f32, batch: u32, head: u32, token: u32, key: u32, end: u32) -> f32 {
    if (key >= end || (CAUSAL && key > u32(position.x) + token)) {
        return MASKED_LOGIT;
    }
    if (key < first_key(token)) {
        return MASKED_LOGIT;
    }
    var total = logit;
    if (params.soft_cap > 0.0) {
        total = soft_capped(logit);
    }
    if (MASK != NO_MASK) {
        let at = batch * params.mask.x + head * params.mask.y + token * params.mask.z + key * params.mask.w;
        let value = load_${MASK_TYPE}_as_f32(mask[at / 4u])[at % 4u];
        if (select(bitcast<u32>(value) == MINUS_INFINITY, value == 0.0, MASK == BOOLEAN)) {
            return MASKED_LOGIT;
        }
        total += select(value, 0.0, MASK == BOOLEAN);
    }
    return select(total, LOWEST_LOGIT, total < LOWEST_LOGIT);
}

// The logits of four rows with one key.
fn masked_rows(logits: vec4<f32>, batch: u32, head: vec4<u32>, token: vec4<u32>, key: u32, end: u32) -> vec4<f32> {
    return vec4<f32>(
        masked(logits.x, batch, head.x, token.x, key, end),
        masked(logits.y, batch, head.y, token.y, key, end),
        masked(logits.z, batch, head.z, token.z, key, end),
        masked(logits.w, batch, head.w, token.w, key, end),
    );
}

// The logits of one row with four keys.
fn masked_keys(logits: vec4<f32>, batch: u32, head: u32, token: u32, key: u32, end: u32) -> vec4<f32> {
    let keys = vec4<u32>(key) + vec4<u32>(0u, 1u, 2u, 3u);
    let last = select(end, min(end, u32(position.x) + token + 1u), CAUSAL);
    var hidden = (keys >= vec4<u32>(last)) | (keys < vec4<u32>(first_key(token)));
    var total = logits;
    if (params.soft_cap > 0.0) {
        total = params.soft_cap * tanh(clamp(logits / params.soft_cap, vec4<f32>(-10.0), vec4<f32>(10.0)));
    }
    if (MASK != NO_MASK) {
        let at = batch * params.mask.x + head * params.mask.y + token * params.mask.z + keys * params.mask.w;
        for (var i = 0u; i < 4u; i++) {
            if (!hidden[i]) {
                let value = load_${MASK_TYPE}_as_f32(mask[at[i] / 4u])[at[i] % 4u];
                hidden[i] = select(bitcast<u32>(value) == MINUS_INFINITY, value == 0.0, MASK == BOOLEAN);
                total[i] += select(value, 0.0, MASK == BOOLEAN);
            }
        }
    }
    let kept = select(total, vec4<f32>(LOWEST_LOGIT), total < vec4<f32>(LOWEST_LOGIT));
    return select(kept, vec4<f32>(MASKED_LOGIT), hidden);
}
