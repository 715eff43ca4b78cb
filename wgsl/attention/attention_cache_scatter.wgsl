// Writes new keys or values into their cache, each token at the position that its index names. Of
// several tokens for one position the last one stays. Bits are copied, so that all types stay exact.
// A negative index counts from the end; one out of range sets the index flag.

// use lib/grid.wgsl
// use lib/index_flag.wgsl

struct Params {
    units: u32, // of all new values
    tokens: u32, // of a batch
    units_per_position: u32,
    flag: u32,
    positions: i32, // of the cache
}

@group(0) @binding(0) var<storage, read> new_values: array<${UNIT}>;
@group(0) @binding(1) var<storage, read> indices: array<i32>;
@group(0) @binding(2) var<storage, read_write> cache: array<${UNIT}>;
@group(0) @binding(3) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(4) var<uniform> params: Params;

fn place_of(line: u32) -> vec4<i32> {
    return from_start(vec4<i32>(indices[line]), vec4<i32>(params.positions));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit >= params.units) {
        return;
    }
    let line = unit / params.units_per_position; // a token of a batch
    let place = place_of(line);
    if (!is_inside(place, vec4<i32>(params.positions))) {
        return;
    }
    let batch = line / params.tokens;
    for (var later = line + 1u; later < (batch + 1u) * params.tokens; later++) {
        if (place_of(later).x == place.x) {
            return;
        }
    }
    let position = batch * u32(params.positions) + u32(place.x);
    cache[position * params.units_per_position + unit % params.units_per_position] = new_values[unit];
}
