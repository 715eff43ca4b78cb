// Attention of rows that belong to several sequences, for software adapters and large heads: an invocation walks all
// keys of one row and head.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/keys_${CACHE_FORMAT}.wgsl
// use lib/attention/cache/values_${CACHE_FORMAT}.wgsl

const VALUE_QUADS = ${VALUE_QUADS}u; // of VALUE_HEAD elements, the last one not always full

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> q: array<Stored>;
@group(0) @binding(1) var<storage, read> k: array<CacheUnit>;
@group(0) @binding(2) var<storage, read> v: array<CacheUnit>;
@group(0) @binding(3) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(4) var<storage, read_write> output: array<Stored>;
@group(0) @binding(5) var<storage, read> places: array<vec4<i32>>;
@group(0) @binding(6) var<uniform> params: Params;

var<private> position: vec4<i32>; // of the invocation's query

// Four elements of a query, with zeros past its end.
fn query_quad(start: u32, quad: u32) -> vec4<f32> {
    let element = quad * 4u + vec4<u32>(0u, 1u, 2u, 3u);
    let at = start + min(element, vec4<u32>(HEAD - 1u));
    let found = vec4<f32>(f32(q[at.x]), f32(q[at.y]), f32(q[at.z]), f32(q[at.w]));
    return select(found, vec4<f32>(), element >= vec4<u32>(HEAD));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let line = flat_index(invocation, workgroups);
    if (line >= params.lines) {
        return;
    }
    let heads = params.key_heads * GROUP;
    let row = line / heads;
    let head = line % heads;
    position = places[row];
    let slot = u32(max(position.y, 0));
    let keys = select(0u, u32(position.x) + 1u, position.y >= 0);
    let q_at = row * params.q.x + head * params.q.y;
    let k_at = slot * params.k.x + head / GROUP * params.k.y;
    let v_at = slot * params.v.x + head / GROUP * params.v.y;
    var maximum = LOWEST_LOGIT;
    var sum = 0.0;
    var result = array<vec4<f32>, VALUE_QUADS>();
    for (var key = first_key(0u); key < keys; key++) {
        var total = 0.0;
        for (var quad = 0u; quad < (HEAD + 3u) / 4u; quad++) {
            total += dot(query_quad(q_at, quad), cached_key(k_at + key * params.k.z, quad));
        }
        let logit = masked(params.scale * total, row, head, 0u, key, keys);
        let highest = max(maximum, logit);
        let correction = exp(maximum - highest);
        let weight = weight_of(logit, highest);
        maximum = highest;
        sum = fma(sum, correction, weight);
        for (var quad = 0u; quad < VALUE_QUADS; quad++) {
            result[quad] = correction * result[quad] + weight * cached_value(v_at + key * params.v.z, quad);
        }
    }
    let start = row * params.output.x + head * params.output.y;
    for (var i = 0u; i < VALUE_HEAD; i++) {
        // Padding sees no key, and is zero.
        output[start + i] = Stored(select(result[i / 4u][i % 4u] / sum, 0.0, sum == 0.0));
    }
}
