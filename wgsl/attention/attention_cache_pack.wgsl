// Writes new keys or values into their cache in f16 or 8 bits, from the live position on: a quad per invocation, which finds
// the step of its row for itself.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/attention/cache/${CACHE_FORMAT}.wgsl
// use lib/attention/cache/new_quad.wgsl
// use lib/attention/cache/pack_${CACHE_FORMAT}.wgsl

struct Params {
    quads: u32, // of all new values
    quads_per_row: u32,
    rows_per_batch: u32, // tokens times heads
    rows_per_position: u32, // heads
    cache_rows_per_batch: u32,
    size: u32, // elements of a row
}

alias Stored = ${FLOAT};

@group(0) @binding(0) var<storage, read> new_values: array<Stored>;
@group(0) @binding(1) var<storage, read_write> cache: array<CacheUnit>;
@group(0) @binding(2) var<uniform> position: vec4<i32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let index = flat_index(invocation, workgroups);
    if (index >= params.quads) {
        return;
    }
    let row = index / params.quads_per_row;
    let within = row % params.rows_per_batch + u32(position.x) * params.rows_per_position;
    write_quad(row, index % params.quads_per_row, row / params.rows_per_batch * params.cache_rows_per_batch + within);
}
