// Attention on software adapters, first step: logits[line, key] = scale q . k + mask, four keys of a
// line per invocation. Tiles in workgroup memory would take such an adapter minutes to compile.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/attention_rows.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/keys_${CACHE_FORMAT}.wgsl

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> q: array<Stored>;
@group(0) @binding(1) var<storage, read> k: array<CacheUnit>;
@group(0) @binding(2) var<storage, read> mask: array<quad_${MASK_TYPE}>;
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;
@group(0) @binding(4) var<uniform> position: vec4<i32>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quads = (params.width + 3u) / 4u;
    let index = flat_index(invocation, workgroups);
    let line = index / quads;
    let key = index % quads * 4u;
    let keys = live_keys();
    if (line >= params.lines || key >= keys) {
        return;
    }
    let row = row_of(line);
    let q_at = row.batch * params.q.x + row.head * params.q.y + row.token * params.q.z;
    let each = min(key + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(keys - 1u));
    let k_at = row.batch * params.k.x + row.head / GROUP * params.k.y + each * params.k.z;
    var sums = vec4<f32>();
    for (var i = 0u; i < HEAD; i += 4u) {
        let element = i + vec4<u32>(0u, 1u, 2u, 3u);
        let at = q_at + min(element, vec4<u32>(HEAD - 1u));
        let found = vec4<f32>(f32(q[at.x]), f32(q[at.y]), f32(q[at.z]), f32(q[at.w]));
        let own = select(found, vec4<f32>(), element >= vec4<u32>(HEAD));
        let quad = i / 4u;
        sums += vec4<f32>(
            dot(own, cached_key(k_at.x, quad)),
            dot(own, cached_key(k_at.y, quad)),
            dot(own, cached_key(k_at.z, quad)),
            dot(own, cached_key(k_at.w, quad)),
        );
    }
    for (var i = 0u; i < min(4u, keys - key); i++) {
        let logit = masked(params.scale * sums[i], row.batch, row.head, row.token, key + i, keys);
        logits[line * params.width + key + i] = logit;
    }
}
