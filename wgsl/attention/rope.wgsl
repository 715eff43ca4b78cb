// Rotary position embedding of queries and keys, [batch, token, head, element], in one dispatch.
//
// An invocation rotates one pair (a, b) of elements by the angle of its token, or copies two elements that are not rotated.

// use lib/grid.wgsl
// use lib/attention/rope_pairs.wgsl

alias Stored = ${FLOAT};

struct Params {
    q: Tensor,
    k: Tensor,
    tokens: u32,
    rotated: u32, // pairs of a head
    row: u32, // elements of the tables between tokens, and between heads
    head: u32,
}

@group(0) @binding(0) var<storage, read> q: array<Stored>;
@group(0) @binding(1) var<storage, read> k: array<Stored>;
@group(0) @binding(2) var<storage, read> cosines: array<Stored>;
@group(0) @binding(3) var<storage, read> sines: array<Stored>;
@group(0) @binding(4) var<storage, read_write> q_output: array<Stored>;
@group(0) @binding(5) var<storage, read_write> k_output: array<Stored>;
@group(0) @binding(6) var<uniform> position: vec4<i32>;
@group(0) @binding(7) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit < params.q.units) {
        let pair = pair_of(unit, params.q);
        let result = rotate(vec2<f32>(f32(q[pair.a]), f32(q[pair.b])), pair);
        q_output[pair.a] = Stored(result.x);
        if (pair.count == 2u) {
            q_output[pair.b] = Stored(result.y);
        }
    } else if (unit - params.q.units < params.k.units) {
        let pair = pair_of(unit - params.q.units, params.k);
        let result = rotate(vec2<f32>(f32(k[pair.a]), f32(k[pair.b])), pair);
        k_output[pair.a] = Stored(result.x);
        if (pair.count == 2u) {
            k_output[pair.b] = Stored(result.y);
        }
    }
}
