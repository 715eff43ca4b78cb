// Reads a quad of a new key or value as it will be read from the cache, in 8 bits, and writes it there. Each invocation
// finds the step of the row for itself: that takes less time than another barrier for all. The number of quads is no
// constant, so that compilers do not unroll these loops.

var<private> scaled_key: u32 = 0xffffffffu; // the key that `key_scale` is of
var<private> key_scale: u32;

fn append_key(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    if (scaled_key != key) {
        var peak = 0u;
        for (var i = 0u; i < params.new_keys.w; i++) {
            peak = max(peak, quad_absmax(vec4<f32>(new_key(job, key, i))));
        }
        key_scale = row_scale_bits(peak);
        scaled_key = key;
    }
    let word = quantize_int8(vec4<f32>(new_key(job, key, quad)), key_scale);
    if (job.tile == 0u) {
        k[start + 1u + quad] = word;
        if (quad == 0u) {
            k[start] = key_scale;
        }
    }
    return dequantize_int8(word, key_scale);
}

fn append_value(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    var peak = 0u;
    for (var i = 0u; i < params.new_keys.w; i++) {
        peak = max(peak, quad_absmax(vec4<f32>(new_value(job, key, i))));
    }
    let step = row_scale_bits(peak);
    let word = quantize_int8(vec4<f32>(new_value(job, key, quad)), step);
    if (job.tile == 0u) {
        v[start + 1u + quad] = word;
        if (quad == 0u) {
            v[start] = step;
        }
    }
    return dequantize_int8(word, step);
}
