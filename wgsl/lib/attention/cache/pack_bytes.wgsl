// Writes a quad of a new row to a row of a cache in 8 bits. Goes with lib/attention/cache/bytes.wgsl.

fn write_quad(row: u32, quad: u32, target_row: u32) {
    var peak = 0u;
    for (var i = 0u; i < params.quads_per_row; i++) {
        peak = max(peak, quad_absmax(new_quad(row, i)));
    }
    let step = row_scale_bits(peak);
    let start = target_row * (params.quads_per_row + 1u);
    cache[start + 1u + quad] = quantize_int8(new_quad(row, quad), step);
    if (quad == 0u) {
        cache[start] = step;
    }
}
