// The smallest and the largest value of each block of a tensor, several threads to a block.
//
// Binding `x` is an array<vec4<${X}>>. A row of lib/reduce/row_reduction.wgsl is a part of a block; an item is one
// element, or a quad of them where blocks are whole quads.

// use lib/nan.wgsl
// use lib/reduce/row_reduction.wgsl

alias Reduced = vec2<f32>; // (smallest, largest)

const MAX_AXES = 16u;
override QUADS: bool;
override INNER_AXES: u32;

struct Blocks {
    count: u32,
    length: u32, // items in a block
    parts: u32, // per block
    part: u32, // items in one
    axes: array<vec4<u32>, MAX_AXES>, // (size, stride) in items: inside of a block, then of blocks
    outer_axes: u32,
}

fn combine(a: Reduced, b: Reduced) -> Reduced {
    return Reduced(smaller_f32(a.x, b.x), larger_f32(a.y, b.y));
}

fn offset_of(index: u32, first: u32, axes: u32) -> u32 {
    var rest = index;
    var offset = 0u;
    for (var i = first + axes; i > first; i--) {
        let axis = params.blocks.axes[i - 1u];
        offset += (rest % axis.x) * axis.y;
        rest /= axis.x;
    }
    return offset;
}

fn add_item(found: Reduced, item: u32) -> Reduced {
    if (QUADS) {
        let quad = vec4<f32>(x[item]);
        let pairs = vec4<f32>(combine(quad.xx, quad.yy), combine(quad.zz, quad.ww));
        return combine(found, combine(pairs.xy, pairs.zw));
    }
    return combine(found, vec2<f32>(f32(x[item / 4u][item % 4u])));
}

// The minimum and maximum of one thread's items; the results of threads outside of the tensor are unused.
fn lane_min_max(place: Place) -> Reduced {
    let blocks = params.blocks;
    var found = Reduced(3.4028234e38, -3.4028234e38);
    if (place.row < blocks.count * blocks.parts) {
        let base = offset_of(place.row / blocks.parts, INNER_AXES, blocks.outer_axes);
        let begin = place.row % blocks.parts * blocks.part;
        for (var i = begin + place.lane; i < min(begin + blocks.part, blocks.length); i += LANES) {
            var item = base + i;
            if (INNER_AXES > 1u) {
                item = base + offset_of(i, 0u, INNER_AXES);
            } else if (!QUADS) {
                item = base + i * blocks.axes[0].y;
            }
            found = add_item(found, item);
        }
    }
    return found;
}

// Called by all threads of a workgroup.
fn block_min_max(place: Place) -> Reduced {
    return reduce_lanes(lane_min_max(place), place);
}
