// Writes new keys or values into their cache, from the live position on.
// Bits are copied as u32, so that all types stay exact; as f16 if a position is not whole words.

// use lib/grid.wgsl

struct Params {
    units: u32, // of all new values
    units_per_batch: u32,
    units_per_position: u32,
    cache_units_per_batch: u32,
}

@group(0) @binding(0) var<storage, read> new_values: array<${UNIT}>;
@group(0) @binding(1) var<storage, read_write> cache: array<${UNIT}>;
@group(0) @binding(2) var<uniform> position: vec4<i32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let unit = flat_index(invocation, workgroups);
    if (unit >= params.units) {
        return;
    }
    let batch = unit / params.units_per_batch;
    let within = unit % params.units_per_batch + u32(position.x) * params.units_per_position;
    cache[batch * params.cache_units_per_batch + within] = new_values[unit];
}
