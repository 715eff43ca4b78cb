// The index of a row's largest or smallest element (rows of `length` elements, `inner` apart), the
// first of equals. IN is the stored type; KEY maps an element to a u32 that orders alike.
//
// A row may be split into parts: then RESULT is a pair of key and index, for argreduce_merge.wgsl.

// use lib/elements.wgsl
// use lib/reduce/argreduce.wgsl
// use lib/reduce/row_reduction.wgsl

override SMALLEST: bool;

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
    parts: u32, // per row
    part: u32, // elements in one
}

@group(0) @binding(0) var<storage, read> input: array<word_${IN}>;
@group(0) @binding(1) var<storage, read_write> output: array<${RESULT}>;
@group(0) @binding(2) var<uniform> params: Params;

// NaN is both the largest and the smallest, and -0.0 is 0.0: as in torch.
fn float_key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0xffffffffu;
    }
    let ordered = select(magnitude | 0x80000000u, ~bits, bits > 0x80000000u);
    return select(ordered, ~ordered, SMALLEST);
}

fn integer_key(x: i32) -> u32 {
    let ordered = bitcast<u32>(x) ^ 0x80000000u;
    return select(ordered, ~ordered, SMALLEST);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let place = place_of(thread, workgroup, workgroups);
    let inside = place.row < params.rows * params.parts;
    let row = select(place.row / params.parts, place.row % params.rows, ROWS_FASTEST);
    let part = select(place.row % params.parts, place.row / params.rows, ROWS_FASTEST);
    var best = NOTHING;
    if (inside) {
        let base = (row / params.inner) * params.length * params.inner + row % params.inner;
        let end = min(params.length, (part + 1u) * params.part);
        for (var i = part * params.part + place.lane; i < end; i += LANES) {
            let at = base + i * params.inner;
            let x = pick_${IN}(input[at / per_word_${IN}], at);
            best = combine(best, vec2u(${KEY}, i));
        }
    }
    best = reduce_lanes(best, place);
    if (inside && place.lane == 0u) {
        output[row * params.parts + part] = ${RESULT}(best${SWIZZLE});
    }
}
