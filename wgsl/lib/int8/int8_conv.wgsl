// Numbers per channel of convolutions of int8: bindings `scales` and `bias`. Goes with lib/conv/conv.wgsl
// and lib/int8/int8.wgsl.

override WEIGHT_FLIP = 0u; // 0x80808080 makes unsigned bytes signed: 128 less

fn scale_of(channel: u32) -> f32 {
    return f32(scales[channel % scaling.scales]);
}

// Without a bias there is a short buffer of zeros.
fn bias_of(channel: u32) -> Bias {
    return bias[min(channel, arrayLength(&bias) - 1u)];
}
