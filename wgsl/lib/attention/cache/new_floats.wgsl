// Reads a quad of a new key or value, and writes it to its place in a cache of floats, which begins at an element.

fn append_key(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    let value = new_key(job, key, quad);
    if (job.tile == 0u) {
        k[start / 4u + quad] = value;
    }
    return vec4<f32>(value);
}

fn append_value(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    let value = new_value(job, key, quad);
    if (job.tile == 0u) {
        v[start / 4u + quad] = value;
    }
    return vec4<f32>(value);
}
