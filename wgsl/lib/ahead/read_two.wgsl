// Reads up to two buffers of weights that later kernels multiply by, for nothing but to bring them into the GPU's cache.
//
// Workgroups beyond a kernel's own do it while the kernel waits for others than memory. Nothing may remove the reads, so their odd words
// are counted: a count that no compiler knows, and that is never as large as the buffers.
// The kernel declares `ahead_0`, `ahead_1`, and calls
//     fn touches(index: u32, own: u32, groups: u32, thread: u32) -> bool    whether `touched` is to be written: never

const SECTOR = 2u; // quads of the 32 bytes that memory is read by
const MOST_ODD = 0xf0000000u;

fn touch_0(first: u32, stride: u32) -> u32 {
    let last = (arrayLength(&ahead_0) - 1u) / SECTOR;
    var odd = 0u;
    for (var i = first; i <= last; i += 4u * stride) {
        let words = vec4<u32>(
            ahead_0[i * SECTOR].x,
            ahead_0[min(i + stride, last) * SECTOR].x,
            ahead_0[min(i + 2u * stride, last) * SECTOR].x,
            ahead_0[min(i + 3u * stride, last) * SECTOR].x,
        ) & vec4<u32>(1u);
        odd += words.x + words.y + words.z + words.w;
    }
    return odd;
}

fn touch_1(first: u32, stride: u32) -> u32 {
    let last = (arrayLength(&ahead_1) - 1u) / SECTOR;
    var odd = 0u;
    for (var i = first; i <= last; i += 4u * stride) {
        let words = vec4<u32>(
            ahead_1[i * SECTOR].x,
            ahead_1[min(i + stride, last) * SECTOR].x,
            ahead_1[min(i + 2u * stride, last) * SECTOR].x,
            ahead_1[min(i + 3u * stride, last) * SECTOR].x,
        ) & vec4<u32>(1u);
        odd += words.x + words.y + words.z + words.w;
    }
    return odd;
}

// Reads the spare workgroup's share; true if the count is impossible.
fn read_ahead(spare: u32, spares: u32, thread: u32, threads: u32) -> bool {
    let first = spare * threads + thread;
    let stride = spares * threads;
    return touch_0(first, stride) + touch_1(first, stride) > MOST_ODD;
}
