// Numbers per channel of convolutions of int8: bindings `scales` and `bias`. Goes with lib/conv.wgsl
// and lib/int8.wgsl.

fn scale_of(channel: u32) -> f32 {
    return scales[channel % scaling.scales];
}

fn bias_of(channel: u32) -> f32 {
    if (HAS_BIAS) {
        return bias[channel];
    }
    return 0.0;
}
