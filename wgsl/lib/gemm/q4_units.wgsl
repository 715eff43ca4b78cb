// Words of quantized weights as unscaled floats, four columns at once; a unit is a vec4<u32> of one
// column. Goes with lib/gemm/gemm.wgsl and lib/gemm/q4_weights.wgsl.

// Four nibbles of four columns each, without a shift: each nibble stays where it is, and the exponent is
// chosen so that it counts 0 to 15.
fn nibbles_of(words: vec4<u32>) -> Block {
    let first = bitcast<vec4<f32>>((words & vec4<u32>(0xfu)) | vec4<u32>(0x4b000000u)) - 8388616.0;
    let second = bitcast<vec4<f32>>((words & vec4<u32>(0xf0u)) | vec4<u32>(0x49000000u)) - 524296.0;
    let third = bitcast<vec4<f32>>((words & vec4<u32>(0xf00u)) | vec4<u32>(0x47000000u)) - 32776.0;
    let fourth = bitcast<vec4<f32>>((words & vec4<u32>(0xf000u)) | vec4<u32>(0x45000000u)) - 2056.0;
    if (FORMAT == HIGH_FIRST) {
        return Block(second, first, fourth, third);
    }
    return Block(first, second, third, fourth);
}

fn unscaled_block(words: vec4<u32>) -> Block {
    if (FORMAT == BYTES) {
        return Block(value_of(words, 0u), value_of(words, 1u), value_of(words, 2u), value_of(words, 3u));
    }
    return nibbles_of(words);
}

fn values_per_unit() -> u32 { return select(32u, 16u, FORMAT == BYTES); }

// One k after the other, so that each step is a single instruction.
fn fma_block(sums: Quad, values: vec4<f32>, block: Block) -> Quad {
    var sum = fma(Quad(values.x), block.k0, sums);
    sum = fma(Quad(values.y), block.k1, sum);
    sum = fma(Quad(values.z), block.k2, sum);
    return fma(Quad(values.w), block.k3, sum);
}
