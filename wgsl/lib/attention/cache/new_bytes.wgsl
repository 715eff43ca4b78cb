// Reads a quad of a new key or value as it will be read from the cache, in 8 bits, and writes it there. Each invocation
// finds the step of the row for itself: that takes less time than another barrier for all. The number of quads is no
// constant, so that compilers do not unroll these loops.

var<private> step_key: u32 = 0xffffffffu; // the key that `key_step` is of
var<private> key_step: u32;

fn taken_key(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    if (step_key != key) {
        var peak = 0u;
        for (var i = 0u; i < params.new_keys.w; i++) {
            peak = max(peak, peak_of(vec4<f32>(new_key(job, key, i))));
        }
        key_step = step_of(peak);
        step_key = key;
    }
    let word = bytes_of_floats(vec4<f32>(new_key(job, key, quad)), key_step);
    if (job.tile == 0u) {
        k[start + 1u + quad] = word;
        if (quad == 0u) {
            k[start] = key_step;
        }
    }
    return floats_of_bytes(word, key_step);
}

fn taken_value(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    var peak = 0u;
    for (var i = 0u; i < params.new_keys.w; i++) {
        peak = max(peak, peak_of(vec4<f32>(new_value(job, key, i))));
    }
    let step = step_of(peak);
    let word = bytes_of_floats(vec4<f32>(new_value(job, key, quad)), step);
    if (job.tile == 0u) {
        v[start + 1u + quad] = word;
        if (quad == 0u) {
            v[start] = step;
        }
    }
    return floats_of_bytes(word, step);
}
