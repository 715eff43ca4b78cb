// For attention_matrix.wgsl: splits keys and values into f16, in blocks of 32 keys and in the order in which that kernel
// stages them. A workgroup takes a block.
//
// A key, and an element of the values of a block, is divided by a power of two which brings its largest number near 2^14.

// use lib/matrix/subgroup_matrix.wgsl
// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_blocks.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/keys_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/values_${CACHE_FORMAT}.wgsl
// use lib/matrix/f16_scaling.wgsl

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> k: array<CacheUnit>;
@group(0) @binding(1) var<storage, read> v: array<CacheUnit>;
@group(0) @binding(2) var<storage, read_write> split_f16: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> scales: array<f32>;
@group(0) @binding(4) var<uniform> position: vec4<i32>;
@group(0) @binding(5) var<uniform> params: Params;

fn write_unit(at: u32, unit: SplitUnit) {
    split_f16[at] = unit.high;
    if (PARTS == 2u) {
        split_f16[at + 256u] = unit.low;
    }
}

// Four invocations share a key.
fn split_key(thread: u32, block: u32, start: u32, there: bool) {
    let key = thread / 4u;
    var size = 0u;
    for (var quad = 0u; there && quad < HEAD / 4u; quad++) {
        size = max(size, absmax_bits(cached_key(start, quad)));
    }
    let exponent = scaling_of(size);
    let inverse = select(0.0, inverse_of(exponent), there);
    for (var unit = thread % 4u; unit < HEAD / 8u; unit += 4u) {
        let split = split_unit(cached_key(start, 2u * unit) * inverse, cached_key(start, 2u * unit + 1u) * inverse);
        let place = unit / 8u * SPAN + unit / 2u % 4u * 64u + key * 2u + unit % 2u;
        write_unit(block * CHUNK + place, split);
    }
    if (thread % 4u == 0u) {
        scales[block * SCALES + key] = scale_of(exponent, 0);
    }
}

// Values past the last key are zero.
fn value_at(start: u32, key: u32, end: u32, quad: u32) -> vec4<f32> {
    if (key >= end) {
        return vec4<f32>();
    }
    return cached_value(start + key * params.v.z, quad);
}

// Four elements of eight values, each element with its eight keys one after the other.
fn split_values(block: u32, start: u32, first: u32, end: u32, quad: u32, group: u32) {
    var size = vec4<u32>();
    for (var key = first; key < first + KEYS; key++) {
        size = max(size, bitcast<vec4<u32>>(value_at(start, key, end, quad)) & vec4<u32>(0x7fffffffu));
    }
    let key = first + group * 8u;
    let v0 = value_at(start, key, end, quad);
    let v1 = value_at(start, key + 1u, end, quad);
    let v2 = value_at(start, key + 2u, end, quad);
    let v3 = value_at(start, key + 3u, end, quad);
    let v4 = value_at(start, key + 4u, end, quad);
    let v5 = value_at(start, key + 5u, end, quad);
    let v6 = value_at(start, key + 6u, end, quad);
    let v7 = value_at(start, key + 7u, end, quad);
    for (var i = 0u; i < 4u; i++) {
        let element = quad * 4u + i;
        let exponent = scaling_of(size[i]);
        let inverse = inverse_of(exponent);
        let unit = split_unit(
            vec4<f32>(v0[i], v1[i], v2[i], v3[i]) * inverse,
            vec4<f32>(v4[i], v5[i], v6[i], v7[i]) * inverse,
        );
        let pair = group / 2u * 2u + element % 64u / 32u;
        let place = (ROUNDS + element / 64u) * SPAN + pair * 64u + element % 32u * 2u + group % 2u;
        write_unit(block * CHUNK + place, unit);
        if (group == 0u) {
            scales[block * SCALES + KEYS + element] = scale_of(exponent, -WEIGHT_POWER);
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let block = workgroup.x + workgroup.y * workgroups.x;
    let first = block % params.width * KEYS;
    let head = block / params.width;
    let end = live_keys();
    if (block >= params.workgroups || first >= end) {
        return;
    }
    let batch = head / params.key_heads;
    let key_head = head % params.key_heads;
    let key = min(first + thread / 4u, end - 1u);
    let keys = batch * params.k.x + key_head * params.k.y;
    split_key(thread, block, keys + key * params.k.z, first + thread / 4u < end);
    let values = batch * params.v.x + key_head * params.v.y;
    for (var i = thread; i < HEAD; i += THREADS) {
        split_values(block, values, first, end, i % (HEAD / 4u), i / (HEAD / 4u));
    }
}
