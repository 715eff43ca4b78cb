// Floats in f16, two to a word, on GPUs without f16, too. engine/ops/attention/cache_packing.py has the same in NumPy.

alias CacheUnit = vec2<u32>; // four elements

const HALF_NORMAL = 0x38800000u; // the least number that is not subnormal in f16, as bits of f32
const HALF_INFINITY = 0x7c00u;
const HALF_NAN = 0x7e00u;

fn unpack_f16(words: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

// Rounds to nearest, ties to even: how pack2x16float rounds, and what it makes of large numbers, is up to the GPU.
fn f16_bits(value: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(value);
    let size = bits & vec4<u32>(0x7fffffffu);
    let odd = (size >> vec4<u32>(13u)) & vec4<u32>(1u);
    let normal = ((size + vec4<u32>(0xfffu) + odd) >> vec4<u32>(13u)) - vec4<u32>(0x1c000u);
    // A sum from 0.5 to 1 is a multiple of 2^-24, as subnormal numbers of f16 are.
    let subnormal = bitcast<vec4<u32>>(bitcast<vec4<f32>>(min(size, vec4<u32>(HALF_NORMAL))) + vec4<f32>(0.5));
    var half = min(normal, vec4<u32>(HALF_INFINITY));
    half = select(half, subnormal - vec4<u32>(0x3f000000u), size < vec4<u32>(HALF_NORMAL));
    half = select(half, vec4<u32>(HALF_NAN), size > vec4<u32>(0x7f800000u));
    return half | ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
}

fn pack_f16(value: vec4<f32>) -> vec2<u32> {
    let half = f16_bits(value);
    return half.xz | (half.yw << vec2<u32>(16u));
}
