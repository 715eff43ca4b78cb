// Samples an image at the places of a grid, -1 to 1 from edge to edge.
//
// An invocation takes one place and a few channels: the taps of the place are computed once.
// FLOAT is the element type in memory: f32 or f16.

// use lib/grid.wgsl
// use lib/nan.wgsl

struct Params {
    places: u32, // of one image
    batch: u32,
    channels: u32,
    channel_blocks: u32,
    in_size: vec2<u32>, // (height, width)
}

const BLOCK = 8u; // channels per invocation

override MODE: u32;
const NEAREST = 1u;
const CUBIC = 2u;
override PADDING: u32;
const BORDER = 1u;
const REFLECTION = 2u;
override ALIGN_CORNERS: bool;

@group(0) @binding(0) var<storage, read> input: array<${FLOAT}>;
@group(0) @binding(1) var<storage, read> grid: array<vec2<${FLOAT}>>; // (x, y)
@group(0) @binding(2) var<storage, read_write> output: array<${FLOAT}>;
@group(0) @binding(3) var<uniform> params: Params;

// Up to four inputs along one axis; -1 is outside.
struct Taps {
    count: u32,
    place: vec4<i32>,
    weight: vec4<f32>,
}

fn reflected(x: f32, size: f32) -> f32 {
    // The outermost pixels' centres, or with unaligned corners their edges, are the mirrors.
    let low = select(-0.5, 0.0, ALIGN_CORNERS);
    let span = select(size, size - 1.0, ALIGN_CORNERS);
    if (span <= 0.0) {
        return 0.0;
    }
    let distance = abs(x - low);
    let flips = floor(distance / span);
    let rest = distance - flips * span;
    return low + select(rest, span - rest, i32(flips) % 2 != 0);
}

fn settled(x: f32, size: f32) -> f32 {
    if (PADDING == BORDER) {
        return clamp(x, 0.0, size - 1.0);
    }
    if (PADDING == REFLECTION) {
        return clamp(reflected(x, size), 0.0, size - 1.0);
    }
    return x;
}

fn cubic_weights(t: f32) -> vec4<f32> {
    const a = -0.75;
    let near = vec2<f32>(t, 1.0 - t);
    let far = near + 1.0;
    let inner = ((a + 2.0) * near - (a + 3.0)) * near * near + 1.0;
    let outer = ((a * far - 5.0 * a) * far + 8.0 * a) * far - 4.0 * a;
    return vec4<f32>(outer.x, inner.x, inner.y, outer.y);
}

fn taps_at(coordinate: f32, pixels: u32) -> Taps {
    let size = f32(pixels);
    var x = select(((coordinate + 1.0) * size - 1.0) / 2.0, (coordinate + 1.0) / 2.0 * (size - 1.0), ALIGN_CORNERS);
    if (is_nan_f32(x) || abs(x) > 1.0e9) { // beyond the range of integers
        x = -100.0;
    }
    var taps: Taps;
    if (MODE == CUBIC) {
        let first = floor(x) - 1.0;
        taps = Taps(4u, vec4<i32>(), cubic_weights(x - floor(x)));
        for (var i = 0u; i < 4u; i++) {
            taps.place[i] = i32(settled(first + f32(i), size));
        }
    } else if (MODE == NEAREST) {
        taps = Taps(1u, vec4<i32>(i32(round(settled(x, size)))), vec4<f32>(1.0));
    } else {
        let at = settled(x, size);
        let before = floor(at);
        let share = at - before;
        taps = Taps(2u, vec4<i32>(i32(before)) + vec4<i32>(0, 1, 0, 0), vec4<f32>(1.0 - share, share, 0.0, 0.0));
    }
    taps.place = select(taps.place, vec4<i32>(-1), vec4<u32>(taps.place) >= vec4<u32>(pixels));
    return taps;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let index = flat_index(invocation, workgroups);
    let place = index % params.places;
    let block = index / params.places % params.channel_blocks;
    let image = index / (params.places * params.channel_blocks);
    if (image >= params.batch) {
        return;
    }
    let at = vec2<f32>(grid[image * params.places + place]);
    let w = taps_at(at.x, params.in_size.y);
    let h = taps_at(at.y, params.in_size.x);
    for (var channel = block * BLOCK; channel < min((block + 1u) * BLOCK, params.channels); channel++) {
        let channel_at = (image * params.channels + channel) * params.in_size.x * params.in_size.y;
        var sum = 0.0;
        for (var i = 0u; i < h.count; i++) {
            for (var j = 0u; j < w.count; j++) {
                if (h.place[i] >= 0 && w.place[j] >= 0) {
                    let x = f32(input[channel_at + u32(h.place[i]) * params.in_size.y + u32(w.place[j])]);
                    sum += x * h.weight[i] * w.weight[j];
                }
            }
        }
        output[(image * params.channels + channel) * params.places + place] = ${FLOAT}(sum);
    }
}
