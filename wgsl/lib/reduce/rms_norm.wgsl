// Root mean square normalization of rows of items: x / sqrt(mean(x * x) + eps) * weight. ITEM is one element or a
// quad of them. The kernel declares `input` and `weight`, arrays of Stored, and `params`.

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

// The items of a row that one invocation has: from `first` on, every LANES-th before `end`.
struct Share {
    base: u32, // where the row begins
    first: u32,
    end: u32,
    scale: f32, // 1 / rms of the row
}

// All threads must get here together.
fn share_of(place: Place) -> Share {
    let base = place.row * params.length;
    let end = select(0u, params.length, place.row < params.rows);
    var squares = Item();
    for (var i = place.lane; i < end; i += LANES) {
        let x = Item(input[base + i]);
        squares += x * x;
    }
    let scale = inverseSqrt(reduce_lanes(sum_${ITEM}(squares), place) / params.count + params.eps);
    return Share(base, place.lane, end, scale);
}

fn unscaled(share: Share, i: u32) -> Item {
    return Item(input[share.base + i]) * share.scale;
}

fn normalized(share: Share, i: u32) -> Item {
    return unscaled(share, i) * Item(weight[i]);
}
