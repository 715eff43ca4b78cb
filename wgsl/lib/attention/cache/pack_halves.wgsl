// Writes a quad of a new row to a row of a cache in f16. Goes with lib/attention/cache/halves.wgsl.

fn write_quad(row: u32, quad: u32, target_row: u32) {
    cache[target_row * params.quads_per_row + quad] = pack_f16(new_quad(row, quad));
}
