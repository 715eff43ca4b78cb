// Root mean square normalization and a sum: output = residual + x / sqrt(mean(x * x) + eps) * weight, row by row.
// ITEM is one element or a quad of them.

// use lib/items.wgsl
// use lib/reduce/sum.wgsl
// use lib/reduce/row_reduction.wgsl

alias Item = ${ITEM};
alias Stored = stored_${ITEM};

struct Params {
    rows: u32,
    length: u32, // items in a row
    count: f32, // elements in a row
    eps: f32,
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read> weight: array<Stored>;
@group(0) @binding(2) var<storage, read> residual: array<Stored>;
@group(0) @binding(3) var<storage, read_write> output: array<Stored>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let base = place.row * params.length;
    let end = select(0u, params.length, place.row < params.rows);
    var squares = Item();
    for (var i = place.lane; i < end; i += LANES) {
        let x = Item(input[base + i]);
        squares += x * x;
    }
    let scale = inverseSqrt(fold(sum_${ITEM}(squares), place) / params.count + params.eps);
    for (var i = place.lane; i < end; i += LANES) {
        let normal = Item(input[base + i]) * scale * Item(weight[i]);
        output[base + i] = Stored(Item(residual[base + i]) + normal);
    }
}
