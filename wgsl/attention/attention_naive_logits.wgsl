// Attention on software adapters, first step: logits[line, key] = scale q . k + mask, four keys of a
// line per invocation. Tiles in workgroup memory would take such an adapter minutes to compile.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/attention/attention.wgsl
// use lib/attention/attention_mask.wgsl
// use lib/attention/attention_rows.wgsl

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> q: array<Stored>;
@group(0) @binding(1) var<storage, read> k: array<Stored>;
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
    var q_at = row.batch * params.q.x + row.head * params.q.y + row.token * params.q.z;
    let each = min(key + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(keys - 1u));
    var k_at = row.batch * params.k.x + row.head / GROUP * params.k.y + each * params.k.z;
    var sums = vec4<f32>();
    for (var i = 0u; i < HEAD; i++) {
        sums += f32(q[q_at]) * vec4<f32>(f32(k[k_at.x]), f32(k[k_at.y]), f32(k[k_at.z]), f32(k[k_at.w]));
        q_at += 1u;
        k_at += 1u;
    }
    for (var i = 0u; i < min(4u, keys - key); i++) {
        let logit = masked(params.scale * sums[i], row.batch, row.head, row.token, key + i, keys);
        logits[line * params.width + key + i] = logit;
    }
}
