// Reads up to six buffers of weights that later kernels multiply by, for nothing but to bring them into the GPU's cache.
//
// Workgroups beyond a kernel's own do it while the kernel waits for others than memory. Nothing may remove the reads, so their odd words
// are counted: a count that no compiler knows, and that is never as large as the buffers.
// The kernel declares `ahead_0`, `ahead_1`, `ahead_2`, `ahead_3`, `ahead_4`, `ahead_5`, and calls
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

fn touch_2(first: u32, stride: u32) -> u32 {
    let last = (arrayLength(&ahead_2) - 1u) / SECTOR;
    var odd = 0u;
    for (var i = first; i <= last; i += 4u * stride) {
        let words = vec4<u32>(
            ahead_2[i * SECTOR].x,
            ahead_2[min(i + stride, last) * SECTOR].x,
            ahead_2[min(i + 2u * stride, last) * SECTOR].x,
            ahead_2[min(i + 3u * stride, last) * SECTOR].x,
        ) & vec4<u32>(1u);
        odd += words.x + words.y + words.z + words.w;
    }
    return odd;
}

fn touch_3(first: u32, stride: u32) -> u32 {
    let last = (arrayLength(&ahead_3) - 1u) / SECTOR;
    var odd = 0u;
    for (var i = first; i <= last; i += 4u * stride) {
        let words = vec4<u32>(
            ahead_3[i * SECTOR].x,
            ahead_3[min(i + stride, last) * SECTOR].x,
            ahead_3[min(i + 2u * stride, last) * SECTOR].x,
            ahead_3[min(i + 3u * stride, last) * SECTOR].x,
        ) & vec4<u32>(1u);
        odd += words.x + words.y + words.z + words.w;
    }
    return odd;
}

fn touch_4(first: u32, stride: u32) -> u32 {
    let last = (arrayLength(&ahead_4) - 1u) / SECTOR;
    var odd = 0u;
    for (var i = first; i <= last; i += 4u * stride) {
        let words = vec4<u32>(
            ahead_4[i * SECTOR].x,
            ahead_4[min(i + stride, last) * SECTOR].x,
            ahead_4[min(i + 2u * stride, last) * SECTOR].x,
            ahead_4[min(i + 3u * stride, last) * SECTOR].x,
        ) & vec4<u32>(1u);
        odd += words.x + words.y + words.z + words.w;
    }
    return odd;
}

fn touch_5(first: u32, stride: u32) -> u32 {
    let last = (arrayLength(&ahead_5) - 1u) / SECTOR;
    var odd = 0u;
    for (var i = first; i <= last; i += 4u * stride) {
        let words = vec4<u32>(
            ahead_5[i * SECTOR].x,
            ahead_5[min(i + stride, last) * SECTOR].x,
            ahead_5[min(i + 2u * stride, last) * SECTOR].x,
            ahead_5[min(i + 3u * stride, last) * SECTOR].x,
        ) & vec4<u32>(1u);
        odd += words.x + words.y + words.z + words.w;
    }
    return odd;
}

// Reads the spare workgroup's share; true if the count is impossible.
fn read_ahead(spare: u32, spares: u32, thread: u32, threads: u32) -> bool {
    let first = spare * threads + thread;
    let stride = spares * threads;
    return touch_0(first, stride) + touch_1(first, stride) + touch_2(first, stride) + touch_3(first, stride) + touch_4(first, stride) + touch_5(first, stride) > MOST_ODD;
}
