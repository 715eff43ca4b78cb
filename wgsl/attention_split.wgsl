// Attention for a few queries over many keys: the keys are split over workgroups.
//
// A workgroup takes ROWS rows and one share of the keys, 64 at a time. First four invocations share
// a key and each sums a quarter of its dot products with all rows; then they spread over the
// quads of the values, several keys at once. All rows read each key and value once.
//
// Keys and values of the queries' own positions (`fresh`) need not be in the cache yet. They are
// read from where they were computed, and on the way they are kept: the workgroup that walks a key
// is the only one that touches its place in the cache, so nothing waits for anything.

// use lib/quads.wgsl
// use lib/attention.wgsl

const SIZE = 256u;
const KEYS = 64u;
const LANES = 4u; // invocations to a key
const LANE_PITCH = 72u; // 64 keys, and room so that lanes meet in no memory bank
const LEAST = 32u; // keys that are worth a workgroup
const ROWS = ${ROWS}u;
const QUADS = (HEAD + 3u) / 4u;
const VALUE_QUADS = (VALUE_HEAD + 3u) / 4u;
const POOL = max(ROWS * LANES * LANE_PITCH, SIZE * 4u);

override FRESH: bool;

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> fresh_k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> fresh_v: array<vec4<f32>>;
@group(0) @binding(3) var<storage, ${CACHE}> k: array<vec4<f32>>;
@group(0) @binding(4) var<storage, ${CACHE}> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(6) var<storage, read_write> output: array<f32>;
@group(0) @binding(7) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(8) var<uniform> position: vec4<i32>;
@group(0) @binding(9) var<uniform> params: Params;
