// Quads of queries. The kernel declares `q`, an array of quads.

// Heads that are not a multiple of 4 have no aligned quads: they are gathered.
fn q_quad(job: Job, row: u32, quad: u32) -> vec4<f32> {
    let start = query_start(job, row);
    if (HEAD % 4u == 0u) {
        return vec4<f32>(q[start / 4u + quad]);
    }
    var result = vec4<f32>();
    for (var i = 0u; i < min(4u, HEAD - quad * 4u); i++) {
        let at = start + quad * 4u + i;
        result[i] = f32(q[at / 4u][at % 4u]);
    }
    return result;
}
