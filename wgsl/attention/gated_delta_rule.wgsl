// The gated delta rule for some tokens: an invocation has one column of a state, which is in
// `final_state` between tokens, and between dispatches.

// use lib/grid.wgsl

override CHANNELS: bool; // whether each key element has a decay of its own

alias Stored = ${FLOAT};

struct Params {
    columns: u32, // of all states
    group: u32, // query heads of a state
    tokens: u32,
    keys: u32, // elements of a key
    size: u32, // elements of a value
    first: u32, // token of this dispatch
    last: u32, // the one after it
}

@group(0) @binding(0) var<storage, read> query: array<Stored>;
@group(0) @binding(1) var<storage, read> key: array<Stored>;
@group(0) @binding(2) var<storage, read> value: array<Stored>;
@group(0) @binding(3) var<storage, read> decay: array<Stored>;
@group(0) @binding(4) var<storage, read> beta: array<Stored>;
@group(0) @binding(5) var<storage, read> initial_state: array<Stored>;
@group(0) @binding(6) var<storage, read_write> output: array<Stored>;
@group(0) @binding(7) var<storage, read_write> final_state: array<Stored>;
@group(0) @binding(8) var<uniform> params: Params;

fn decay_at(line: u32, k: u32) -> f32 {
    if (CHANNELS) {
        return f32(decay[line * params.keys + k]);
    }
    return f32(decay[line]);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let column = flat_index(invocation, workgroups);
    if (column >= params.columns) {
        return;
    }
    let head = column / params.size;
    let v = column % params.size;
    let state = head * params.keys * params.size + v; // its elements are params.size apart
    if (params.first == 0u) {
        for (var k = 0u; k < params.keys; k++) {
            final_state[state + k * params.size] = initial_state[state + k * params.size];
        }
    }
    for (var token = params.first; token < params.last; token++) {
        let line = head * params.tokens + token;
        var predicted = 0.0;
        for (var k = 0u; k < params.keys; k++) {
            let kept = f32(final_state[state + k * params.size]) * decay_at(line, k);
            predicted += kept * f32(key[line * params.keys + k]);
        }
        let change = (f32(value[line * params.size + v]) - predicted) * f32(beta[line]);
        for (var k = 0u; k < params.keys; k++) {
            let at = state + k * params.size;
            let kept = f32(final_state[at]) * decay_at(line, k);
            final_state[at] = Stored(kept + f32(key[line * params.keys + k]) * change);
        }
        for (var member = 0u; member < params.group; member++) {
            let query_line = (head * params.group + member) * params.tokens + token;
            var result = 0.0;
            for (var k = 0u; k < params.keys; k++) {
                let kept = f32(final_state[state + k * params.size]);
                result += kept * f32(query[query_line * params.keys + k]);
            }
            output[query_line * params.size + v] = Stored(result);
        }
    }
}
