// The base of the attention kernels: which keys a workgroup walks, and the weights of logits.
//
// A row is one query of one head. The rows of a workgroup belong to one key head, so that they
// share its keys and values: row = token * GROUP + head, with GROUP query heads to a key head.
// The kernel declares `params` and `position` (of the first query).

override GROUP: u32;
override HEAD: u32; // elements of a query and a key
override VALUE_HEAD: u32; // elements of a value and an output row
override CAUSAL: bool; // a query sees the keys up to its own position

struct Params {
    workgroups: u32,
    tokens: u32, // queries of one head
    key_heads: u32,
    tiles: u32, // of rows, to a key head
    splits: u32, // of the keys; with more than one, sums and maxima go to scratch memory
    keys: u32, // plus the position if `follow` is 1
    follow: u32,
    scale: f32,
    // Strides in elements: of a batch, a head, a token.
    q: vec4<u32>,
    k: vec4<u32>,
    v: vec4<u32>,
    output: vec4<u32>,
    mask: vec4<u32>, // and of a key
    new_keys: vec4<u32>, // of keys and values that are not in the cache yet; and quads of a row
    // Of kernels without tiles: a line is a row in the order batch, token, head.
    first_line: u32,
    lines: u32,
    width: u32, // of the logits of a line; of attention_matrix.wgsl: blocks of 32 keys to a key head
    // Of attention_flash_split_rope.wgsl: pairs of a head that are rotated, elements of the tables between tokens and
    // between heads, and where new keys and values begin.
    rotated: u32,
    angle_row: u32,
    angle_head: u32,
    keys_begin: u32,
    values_begin: u32,
    window: u32, // keys that a query sees, its own included; 0: all
    soft_cap: f32, // c of c * tanh(logit / c); 0: logits as they are
}

// WGSL has no infinity: logits stay above FLOOR, and EXCLUDED is clearly below it.
const LOWEST_LOGIT = -1e30;
const MASKED_LOGIT = -2e30;

struct Job {
    batch: u32,
    key_head: u32,
    tile: u32,
    split: u32,
    cache: u32, // that the keys and values are in: of the batch
}

// The longest tiles of causal attention are the last ones; they start first.
fn job_of(index: u32) -> Job {
    let tile = params.tiles - 1u - index / params.splits % params.tiles;
    let heads = index / (params.splits * params.tiles);
    return Job(heads / params.key_heads, heads % params.key_heads, tile, index % params.splits, heads / params.key_heads);
}

fn live_keys() -> u32 {
    return params.keys + params.follow * u32(position.x);
}

// The first key that a query sees.
fn first_key(token: u32) -> u32 {
    let end = u32(position.x) + token + 1u;
    return select(0u, end - params.window, params.window > 0u && end > params.window);
}

// The range of `keys` of one split: whole units, at least `least` of them.
fn split_range(split: u32, keys: u32, unit: u32, least: u32) -> vec2<u32> {
    let even = (keys + params.splits - 1u) / params.splits;
    let size = (max(even, least) + unit - 1u) / unit * unit;
    return min(vec2<u32>(split, split + 1u) * size, vec2<u32>(keys));
}

// exp(logit - maximum), and exactly 0 for excluded keys.
fn weight_of(logit: f32, maximum: f32) -> f32 {
    return select(exp(logit - maximum), 0.0, logit < LOWEST_LOGIT);
}

fn weights_of(logits: vec4<f32>, maximum: vec4<f32>) -> vec4<f32> {
    return select(exp(logits - maximum), vec4<f32>(), logits < vec4<f32>(LOWEST_LOGIT));
}

// a . b + sum as four fused steps; the built-in dot would need one more addition.
fn fma_dot(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
