// Softmax and its logarithm over rows of `length` items, `inner` apart.
//
// One pass finds the row's maximum and the sum of exp(x - maximum) together, the second writes.
// ITEM is one element or a quad of neighbours (then `inner` is 1).

// use lib/reduce/softmax.wgsl
// use lib/reduce/row_reduction.wgsl

override LOGARITHM: bool;

alias Item = ${ITEM};
alias Stored = stored_${ITEM};

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
    nan: f32,
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read_write> output: array<Stored>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let base = (place.row / params.inner) * params.length * params.inner + place.row % params.inner;
    let end = select(0u, params.length, place.row < params.rows);
    var exponentials = NO_EXPONENTIALS;
    for (var i = place.lane; i < end; i += LANES) {
        let x = Item(input[base + i * params.inner]);
        exponentials = with_item(exponentials, x);
    }
    exponentials = reduce_lanes(exponentials, place);
    let maximum = exponentials.x;
    let undefined = is_undefined(exponentials);
    let logarithm = select(log(exponentials.y), params.nan, undefined);
    let scale = select(1.0 / exponentials.y, params.nan, undefined);
    for (var i = place.lane; i < end; i += LANES) {
        let x = Item(input[base + i * params.inner]) - maximum;
        output[base + i * params.inner] = Stored(select(exp(x) * scale, x - logarithm, LOGARITHM));
    }
}
