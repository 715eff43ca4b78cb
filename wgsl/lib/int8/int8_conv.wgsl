// Numbers per channel of convolutions of int8: bindings `scales` and `bias`. Goes with lib/conv/conv.wgsl
// and lib/int8/int8.wgsl.

fn scale_of(channel: u32) -> f32 {
    return f32(scales[channel % scaling.scales]);
}

// Without a bias there is a short buffer of zeros.
fn bias_of(channel: u32) -> f32 {
    return f32(bias[min(channel, arrayLength(&bias) - 1u)]);
}
