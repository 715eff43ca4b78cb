// Cross entropy of rows of logits against a label each, and its gradient, in one pass:
// losses[row] = (log(sum(exp(logits))) - logits[label]) / n, gradient = (softmax - one hot) / n.
// A label below 0 excludes its row; one beyond the columns makes the loss NaN.
// ITEM is one element or a quad of them.

// use lib/reduce/softmax.wgsl
// use lib/reduce/row_reduction.wgsl

alias Item = ${ITEM};
alias Stored = stored_${ITEM};

struct Params {
    rows: u32,
    length: u32, // items in a row
    columns: u32, // elements in a row
    scale: f32, // 1 / n
    nan: f32,
}

@group(0) @binding(0) var<storage, read> logits: array<Stored>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read_write> gradient: array<Stored>;
@group(0) @binding(3) var<storage, read_write> losses: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

// 1 at the label, 0 elsewhere; `i` counts items.
fn one_hot_f32(i: u32, label: u32) -> f32 { return f32(i == label); }
fn one_hot_vec4f(i: u32, label: u32) -> vec4f {
    return vec4f(vec4u(i * 4u) + vec4u(0u, 1u, 2u, 3u) == vec4u(label));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let inside = place.row < params.rows;
    let base = place.row * params.length;
    let end = select(0u, params.length, inside);
    let label = labels[min(place.row, params.rows - 1u)];
    var exponentials = NO_EXPONENTIALS;
    for (var i = place.lane; i < end; i += LANES) {
        exponentials = with_item(exponentials, Item(logits[base + i]));
    }
    exponentials = reduce_lanes(exponentials, place);
    let maximum = exponentials.x;
    let undefined = is_undefined(exponentials);
    let logarithm = select(log(exponentials.y), params.nan, undefined);
    let factor = select(params.scale / exponentials.y, params.nan, undefined);
    let counted = label >= 0;
    for (var i = place.lane; i < end; i += LANES) {
        let x = Item(logits[base + i]);
        let hot = one_hot_${ITEM}(i, u32(label));
        gradient[base + i] = Stored(select(Item(), exp(x - maximum) * factor - hot * params.scale, counted));
        // The lane that reads the label's logit writes the loss.
        if (counted && sum_${ITEM}(hot) > 0.0) {
            let logit = sum_${ITEM}(select(Item(), x, hot > Item()));
            losses[place.row] = (maximum - logit + logarithm) * params.scale;
        }
    }
    if (inside && place.lane == 0u && (!counted || u32(label) >= params.columns)) {
        losses[place.row] = select(0.0, params.nan, counted);
    }
}
