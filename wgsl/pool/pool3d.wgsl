// Pools over windows of depth, height and width, an element of the output per invocation.

// use lib/grid.wgsl
// use lib/nan.wgsl

override MAXIMUM: bool; // or the average
override COUNT_PADDING: bool; // whether the padding counts, but not what lies beyond it

alias Stored = ${FLOAT};

struct Params {
    in_size: vec3<i32>, // (depth, height, width), as all vectors here
    out_size: vec3<i32>,
    kernel: vec3<i32>,
    stride: vec3<i32>,
    padding: vec3<i32>,
    dilation: vec3<i32>,
    elements: u32,
    divisor: i32, // 0: the size of the window
}

@group(0) @binding(0) var<storage, read> input: array<Stored>;
@group(0) @binding(1) var<storage, read_write> output: array<Stored>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

fn volume(size: vec3<i32>) -> i32 { return size.x * size.y * size.z; }

fn place_in(index: i32, size: vec3<i32>) -> vec3<i32> {
    return vec3<i32>(index / (size.y * size.z), index / size.z % size.y, index % size.z);
}

fn is_within(place: vec3<i32>, low: vec3<i32>, high: vec3<i32>) -> bool {
    return all(place >= low) && all(place < high);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let element = flat_index(invocation, workgroups);
    if (element >= params.elements) {
        return;
    }
    let channel = i32(element) / volume(params.out_size);
    let start = place_in(i32(element) % volume(params.out_size), params.out_size) * params.stride - params.padding;
    let base = channel * volume(params.in_size);
    var found = -1;
    var best = 0.0;
    var total = 0.0;
    var count = 0;
    for (var tap = 0; tap < volume(params.kernel); tap++) {
        let place = start + place_in(tap, params.kernel) * params.dilation;
        if (COUNT_PADDING && is_within(place, -params.padding, params.in_size + params.padding)) {
            count++;
        }
        if (!is_within(place, vec3<i32>(), params.in_size)) {
            continue;
        }
        let at = (place.x * params.in_size.y + place.y) * params.in_size.z + place.z;
        let value = f32(input[base + at]);
        if (MAXIMUM) {
            if (found < 0 || value > best || is_nan_f32(value)) {
                best = value;
                found = at;
            }
        } else {
            total += value;
            count += select(1, 0, COUNT_PADDING);
        }
    }
    if (MAXIMUM) {
        output[element] = Stored(best);
        indices[element] = found;
    } else {
        output[element] = Stored(total / f32(select(params.divisor, count, params.divisor == 0)));
    }
}
