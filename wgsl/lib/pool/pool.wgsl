// Common parts of the pooling kernels: a quad of consecutive outputs, and their windows.
//
// LANES invocations share a quad and take turns with the taps, so that a large window is not left to
// one of them.

struct Params {
    quads: u32,
    in_size: vec2<i32>, // (height, width), as all pairs here
    out_size: vec2<u32>,
    kernel: vec2<i32>,
    stride: vec2<i32>,
    padding: vec2<i32>,
    dilation: vec2<i32>,
    divisor: i32, // 0: the size of the window
    lowest: ${VALUE}, // below every value
}

override LANES: u32; // a power of two, at most WORKGROUP_SIZE
override KERNEL_W: u32; // the same as in params; division by a constant is cheap

// Four outputs: where their channels begin in the input, and where their windows do.
struct Windows {
    channel_at: vec4<i32>,
    h: vec4<i32>,
    w: vec4<i32>,
}

fn windows_of(quad: u32) -> Windows {
    let output = vec4<u32>(quad * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let w = output % params.out_size.y;
    let h = output / params.out_size.y % params.out_size.x;
    let channel = output / (params.out_size.x * params.out_size.y);
    return Windows(
        vec4<i32>(channel) * params.in_size.x * params.in_size.y,
        vec4<i32>(h) * params.stride.x - params.padding.x,
        vec4<i32>(w) * params.stride.y - params.padding.y,
    );
}

// Where in its channel each of four windows has this tap; -1 outside of the input.
fn tap_places(windows: Windows, tap: u32) -> vec4<i32> {
    let h = windows.h + i32(tap / KERNEL_W) * params.dilation.x;
    let w = windows.w + i32(tap % KERNEL_W) * params.dilation.y;
    let size = vec2<u32>(params.in_size);
    let inside = (vec4<u32>(h) < vec4<u32>(size.x)) & (vec4<u32>(w) < vec4<u32>(size.y));
    return select(vec4<i32>(-1), h * params.in_size.y + w, inside);
}

// The first tap that is not before the input; taps can step over a small input altogether.
fn first_places(windows: Windows) -> vec4<i32> {
    let h = windows.h + max((params.dilation.x - 1 - windows.h) / params.dilation.x, vec4<i32>()) * params.dilation.x;
    let w = windows.w + max((params.dilation.y - 1 - windows.w) / params.dilation.y, vec4<i32>()) * params.dilation.y;
    return h * params.in_size.y + w;
}

fn element(at: i32) -> ${VALUE} {
    return ${VALUE}(pick_${STORED}(input[u32(at) / per_word_${STORED}], u32(at)));
}
