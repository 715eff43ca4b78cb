// Attention on software adapters, second step: output = softmax(logits) v, four elements of a line
// per invocation.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_rows.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/values_${CACHE_FORMAT}.wgsl

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> v: array<CacheUnit>;
@group(0) @binding(2) var<storage, read_write> output: array<Stored>;
@group(0) @binding(3) var<uniform> position: vec4<i32>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quads = (VALUE_HEAD + 3u) / 4u;
    let index = flat_index(invocation, workgroups);
    let line = index / quads;
    let element = index % quads * 4u;
    if (line >= params.lines) {
        return;
    }
    let row = row_of(line);
    var keys = live_keys();
    if (CAUSAL) {
        keys = min(keys, u32(position.x) + row.token + 1u);
    }
    let first = line * params.width;
    var maximum = LOWEST_LOGIT;
    for (var key = 0u; key < keys; key++) {
        maximum = max(maximum, logits[first + key]);
    }
    var at = row.batch * params.v.x + row.head / GROUP * params.v.y;
    var sum = 0.0;
    var result = vec4<f32>();
    for (var key = 0u; key < keys; key++) {
        let weight = weight_of(logits[first + key], maximum);
        sum += weight;
        result += weight * cached_value(at, element / 4u);
        at += params.v.z;
    }
    // A row without any key is zero.
    result *= select(1.0 / sum, 0.0, sum == 0.0);
    let start = row.batch * params.output.x + row.head * params.output.y + row.token * params.output.z;
    for (var i = 0u; i < min(4u, VALUE_HEAD - element); i++) {
        output[start + element + i] = Stored(result[i]);
    }
}
