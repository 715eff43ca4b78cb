// The tile of a convolution that runs as a GEMM, and the four pixels of an invocation.
//
// Goes with lib/conv/conv.wgsl. The kernel supplies
//     fn pixels_at(image: vec4<u32>, h: vec4<u32>, w: vec4<u32>) -> vec4<u32>   where their inputs begin

// The same as params.kernel; division by a constant is cheap.
override KERNEL_H: u32;
override KERNEL_W: u32;

// The tile of the workgroup, and the four pixels of this invocation.
var<private> group: u32;
var<private> first_row: u32;
var<private> high_k: u32;
var<private> axis_h: Axis;
var<private> axis_w: Axis;
var<private> pixel_at: vec4<u32>; // where their images begin in the input
var<private> pixel_h: vec4<i32>; // of their first taps
var<private> pixel_w: vec4<i32>;
var<private> pixel_out: vec4<u32>; // where they go in the output's first channel
var<private> pixel_exists: vec4<bool>;

fn taps_h() -> u32 { if (TRANSPOSED) { return axis_h.taps; } return KERNEL_H; }
fn taps_w() -> u32 { if (TRANSPOSED) { return axis_w.taps; } return KERNEL_W; }

fn find_pixels(first: u32, pixels: u32) {
    let pixel = vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u);
    let w = pixel % axis_w.outputs;
    let h = pixel / axis_w.outputs % axis_h.outputs;
    let image = pixel / (axis_w.outputs * axis_h.outputs);
    pixel_exists = pixel < vec4<u32>(pixels);
    pixel_at = pixels_at(image, h, w);
    // A pixel past the last one reads above the image, where there is nothing.
    pixel_h = select(vec4<i32>(-0x40000000), axis_h.start + vec4<i32>(h) * axis_h.advance, pixel_exists);
    pixel_w = axis_w.start + vec4<i32>(w) * axis_w.advance;
    let out_h = axis_h.first_output + h * axis_h.output_step;
    let out_w = axis_w.first_output + w * axis_w.output_step;
    pixel_out = (image * params.groups * params.out_channels * params.out_size.x + out_h) * params.out_size.y + out_w;
}
