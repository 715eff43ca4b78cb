// Rotary position embedding of queries and keys, [batch, token, head, element], in one dispatch.
//
// An invocation rotates one pair (a, b) of elements by the angle of its token, or copies two elements
// that are not rotated. Pairs are neighbours, or (HALF) lie half of the rotated elements apart.

// use lib/grid.wgsl

override HALF: bool;

alias Stored = ${FLOAT};

struct Tensor {
    heads: u32,
    size: u32, // elements of a head
    pairs: u32, // of a head, those that are copied too
    units: u32, // pairs of the whole tensor
}

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

// Where the elements of a pair lie in their tensor, and their angles in the tables.
struct Pair {
    a: u32,
    b: u32,
    count: u32, // of elements: the last of an odd head is alone
    rotates: bool,
    angle_a: u32,
    angle_b: u32,
}

fn pair_of(unit: u32, shape: Tensor) -> Pair {
    let within = unit % shape.pairs;
    let line = unit / shape.pairs;
    let first = line * shape.size;
    if (within >= params.rotated) {
        let element = within * 2u;
        return Pair(first + element, first + element + 1u, min(2u, shape.size - element), false, 0u, 0u);
    }
    let token = line / shape.heads % params.tokens + u32(position.x);
    let angle = token * params.row + line % shape.heads * params.head + within;
    if (HALF) {
        return Pair(first + within, first + within + params.rotated, 2u, true, angle, angle + params.rotated);
    }
    return Pair(first + within * 2u, first + within * 2u + 1u, 2u, true, angle, angle);
}

fn rotate(value: vec2<f32>, pair: Pair) -> vec2<f32> {
    if (!pair.rotates) {
        return value;
    }
    return vec2<f32>(
        value.x * f32(cosines[pair.angle_a]) - value.y * f32(sines[pair.angle_a]),
        value.y * f32(cosines[pair.angle_b]) + value.x * f32(sines[pair.angle_b]),
    );
}

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
