// Reads a quad of a new key or value as it will be read from the cache, in f16, and writes it there.

fn append_key(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    let words = pack_f16(vec4<f32>(new_key(job, key, quad)));
    if (job.tile == 0u) {
        k[start + quad] = words;
    }
    return unpack_f16(words);
}

fn append_value(job: Job, key: u32, quad: u32, start: u32) -> vec4<f32> {
    let words = pack_f16(vec4<f32>(new_value(job, key, quad)));
    if (job.tile == 0u) {
        v[start + quad] = words;
    }
    return unpack_f16(words);
}
