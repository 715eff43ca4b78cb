// Writes rows of new keys, values or tokens into a cache with a slot for each sequence, each row at its own place.
// Bits are copied as u32, so that all types stay exact; as f16 if a position is not whole words.

// use lib/grid.wgsl
// use lib/attention/slots.wgsl

struct Params {
    units: u32, // of all rows
    units_per_row: u32,
    slots: i32,
    positions: i32, // of a slot
}

@group(0) @binding(0) var<storage, read> new_values: array<${UNIT}>;
@group(0) @binding(1) var<storage, read> places: array<vec4<i32>>;
@group(0) @binding(2) var<storage, read_write> cache: array<${UNIT}>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit >= params.units) {
        return;
    }
    let position = position_in(places[unit / params.units_per_row], params.slots, params.positions);
    if (position >= 0) {
        cache[u32(position) * params.units_per_row + unit % params.units_per_row] = new_values[unit];
    }
}
