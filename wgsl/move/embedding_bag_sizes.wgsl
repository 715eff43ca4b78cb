// The number of rows in each bag of embedding_bag.wgsl, and the bag of each index: an invocation per bag.
// Wrong offsets are found there.

// use lib/grid.wgsl

override COUNTED: bool; // otherwise sizes are 0
override BAGS: bool; // whether to write the bag of each index
override LAST_ENDS: bool;

struct Params {
    bags: u32,
    count: u32, // indices
    padding: i32,
}

@group(0) @binding(0) var<storage, read> indices: array<i32>;
@group(0) @binding(1) var<storage, read> offsets: array<i32>;
@group(0) @binding(2) var<storage, read_write> bag_of: array<i32>;
@group(0) @binding(3) var<storage, read_write> sizes: array<i32>;
@group(0) @binding(4) var<storage, read_write> more: array<i32>; // the sizes once more
@group(0) @binding(5) var<uniform> params: Params;

fn offset(bag: u32) -> u32 { return u32(clamp(offsets[bag], 0, i32(params.count))); }

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let bag = flat_index(invocation, workgroups);
    if (bag >= params.bags) {
        return;
    }
    var end = params.count;
    if (LAST_ENDS || bag + 1u < params.bags) {
        end = offset(bag + 1u);
    }
    let is_last = bag + 1u == params.bags;
    var size = 0;
    for (var i = offset(bag); i < select(end, params.count, is_last); i++) {
        // Indices after the last bag count for it, whichever row they name.
        size += i32(COUNTED && (i >= end || indices[i] != params.padding));
        if (BAGS) {
            bag_of[i] = i32(bag);
        }
    }
    sizes[bag] = size;
    more[bag] = size;
}
