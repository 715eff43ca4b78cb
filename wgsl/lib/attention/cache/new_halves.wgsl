// Reads a quad of a new key or value as it will be read from the cache, in f16, and writes it there.

fn taken_key(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    let words = halves_of_floats(vec4<f32>(new_key(job, key, quad)));
    if (job.tile == 0u) {
        k[start + quad] = words;
    }
    return floats_of_halves(words);
}

fn taken_value(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    let words = halves_of_floats(vec4<f32>(new_value(job, key, quad)));
    if (job.tile == 0u) {
        v[start + quad] = words;
    }
    return floats_of_halves(words);
}
