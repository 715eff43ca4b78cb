// Maximum pooling, with the place of the maximum in its channel: the first of equals.
// VALUE is what it computes in, f32 or i32. A NaN wins over everything, the last one over others.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/elements.wgsl
// use lib/nan.wgsl
// use lib/pool/pool.wgsl

override WITH_INDICES: bool;
override IN_WINDOW = false; // places are w * height + h in their windows, as XNNPACK counts them
override FLOATS: bool; // whether VALUE is f32

@group(0) @binding(0) var<storage, read> input: array<word_${STORED}>;
@group(0) @binding(1) var<storage, read_write> output: array<quad_${STORED}>;
@group(0) @binding(2) var<storage, read_write> indices: array<vec4<i32>>;
@group(0) @binding(3) var<uniform> params: Params;

struct Best {
    value: vec4<${VALUE}>,
    place: vec4<i32>,
}

fn is_nan(value: vec4<${VALUE}>) -> vec4<bool> {
    return is_nan_vec4f(bitcast<vec4<f32>>(value)) & vec4<bool>(FLOATS);
}

var<workgroup> bests: array<Best, WORKGROUP_SIZE>;

// Lanes take turns with the taps, so neither of the two is the earlier one as a whole.
fn better(a: Best, b: Best) -> Best {
    let a_nan = is_nan(a.value);
    let b_nan = is_nan(b.value);
    let wins = (b.value > a.value) | (b_nan & !a_nan) | (a.place < vec4<i32>());
    let equal = (a.value == b.value) | (a_nan & b_nan);
    let wins_tie = equal & ((b.place > a.place) == b_nan);
    let chosen = (wins | wins_tie) & (b.place >= vec4<i32>());
    return Best(select(a.value, b.value, chosen), select(a.place, b.place, chosen));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(global_invocation_id) invocation: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = flat_index(invocation, workgroups);
    let quad = index / LANES;
    let lane = index % LANES;
    let windows = windows_of(quad);
    let taps = u32(params.kernel.x * params.kernel.y);
    var best = Best(vec4<${VALUE}>(params.lowest), vec4<i32>(-1));
    for (var tap = lane; tap < select(0u, taps, quad < params.quads); tap += LANES) {
        let place = tap_places(windows, tap);
        var value = vec4<${VALUE}>(params.lowest);
        if (place.x >= 0) { value.x = element(windows.channel_at.x + place.x); }
        if (place.y >= 0) { value.y = element(windows.channel_at.y + place.y); }
        if (place.z >= 0) { value.z = element(windows.channel_at.z + place.z); }
        if (place.w >= 0) { value.w = element(windows.channel_at.w + place.w); }
        let wins = (place >= vec4<i32>()) & ((value > best.value) | is_nan(value) | (best.place < vec4<i32>()));
        best = Best(select(best.value, value, wins), select(best.place, place, wins));
    }
    if (LANES > 1u) {
        for (var half = LANES / 2u; half > 0u; half /= 2u) {
            bests[local] = best;
            workgroupBarrier();
            best = better(best, bests[min(local + half, WORKGROUP_SIZE - 1u)]);
            workgroupBarrier();
        }
    }
    if (quad >= params.quads || lane > 0u) {
        return;
    }
    output[quad] = store_${VALUE}_as_${STORED}(best.value);
    if (WITH_INDICES) {
        let place = select(best.place, first_places(windows), best.place < vec4<i32>());
        if (IN_WINDOW) {
            let w = place % params.in_size.y % params.kernel.y;
            indices[quad] = w * params.kernel.x + place / params.in_size.y % params.kernel.x;
        } else {
            indices[quad] = place;
        }
    }
}
