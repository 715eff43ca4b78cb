// The rate of multiplications and additions of ${TYPE} in registers: 8 chains of 4 in each invocation.
//
// All chains begin with other numbers, so that no compiler computes one for two.

@group(0) @binding(0) var<storage, read_write> output: array<f32>;

override LOOPS: u32;

alias Quad = vec4<${TYPE}>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let first = Quad(${TYPE}(id.x & 15u), ${TYPE}(id.x & 7u), ${TYPE}(id.x & 3u), ${TYPE}(id.x & 31u)) * ${TYPE}(0.25);
    let factor = Quad(${TYPE}(0.5)) + first * ${TYPE}(0.03125);
    var sums: array<Quad, 8>;
    sums[0] = first + Quad(${TYPE}(1));
    sums[1] = first + Quad(${TYPE}(2));
    sums[2] = first + Quad(${TYPE}(3));
    sums[3] = first + Quad(${TYPE}(4));
    sums[4] = first + Quad(${TYPE}(5));
    sums[5] = first + Quad(${TYPE}(6));
    sums[6] = first + Quad(${TYPE}(7));
    sums[7] = first + Quad(${TYPE}(8));
    for (var i = 0u; i < LOOPS; i++) {
        let added = Quad(${TYPE}(i & 15u));
        sums[0] = fma(sums[0], factor, added);
        sums[1] = fma(sums[1], factor, added);
        sums[2] = fma(sums[2], factor, added);
        sums[3] = fma(sums[3], factor, added);
        sums[4] = fma(sums[4], factor, added);
        sums[5] = fma(sums[5], factor, added);
        sums[6] = fma(sums[6], factor, added);
        sums[7] = fma(sums[7], factor, added);
    }
    let total = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
    output[id.x] = f32(total.x + total.y + total.z + total.w);
}
