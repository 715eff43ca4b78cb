// Keys as floats: quads of the key that begins at an element. If heads are not a multiple of 4, their quads are not
// aligned and are gathered, with zeros past the end. The kernel declares `k`, an array of CacheUnit.

fn cached_key(start: u32, quad: u32) -> vec4<f32> {
    if (HEAD % 4u == 0u) {
        return vec4<f32>(k[start / 4u + quad]);
    }
    var result = vec4<f32>();
    for (var i = 0u; i < min(4u, HEAD - quad * 4u); i++) {
        let at = start + quad * 4u + i;
        result[i] = f32(k[at / 4u][at % 4u]);
    }
    return result;
}
