// Quads: four consecutive elements of any type at once.
//
// Every buffer is a multiple of 16 bytes long, so the last quad of a tensor may be read and
// written whole: bytes after the last element are never used. Elements of 2 or 4 bytes
// make a vec4; bool, i8 and u8 are bytes, four in one u32 with the first in the lowest bits.

// use lib/quads_f16.wgsl with f16

alias quad_f32 = vec4<f32>;
alias quad_i32 = vec4<i32>;
alias quad_bool = u32;
alias quad_i8 = u32;
alias quad_u8 = u32;

fn bytes_of(word: u32) -> vec4<u32> {
    return (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu);
}

fn signed_bytes_of(word: u32) -> vec4<i32> {
    return (vec4<i32>(i32(word)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
}

fn word_of(bytes: vec4<u32>) -> u32 {
    let low = bytes & vec4<u32>(0xffu);
    return low.x | (low.y << 8u) | (low.z << 16u) | (low.w << 24u);
}

// load_<stored>_as_<computed>
fn load_f32_as_f32(quad: quad_f32) -> vec4<f32> { return quad; }
fn load_f32_as_i32(quad: quad_f32) -> vec4<i32> { return vec4<i32>(quad); }
// By its bits: NaN and numbers too small for some GPUs are true, too.
fn load_f32_as_bool(quad: quad_f32) -> vec4<bool> { return (bitcast<vec4<u32>>(quad) & vec4<u32>(0x7fffffffu)) != vec4<u32>(); }
fn load_i32_as_f32(quad: quad_i32) -> vec4<f32> { return vec4<f32>(quad); }
fn load_i32_as_i32(quad: quad_i32) -> vec4<i32> { return quad; }
fn load_i32_as_bool(quad: quad_i32) -> vec4<bool> { return quad != vec4<i32>(); }
fn load_bool_as_f32(quad: quad_bool) -> vec4<f32> { return vec4<f32>(bytes_of(quad)); }
fn load_bool_as_i32(quad: quad_bool) -> vec4<i32> { return vec4<i32>(bytes_of(quad)); }
fn load_bool_as_bool(quad: quad_bool) -> vec4<bool> { return bytes_of(quad) != vec4<u32>(); }
fn load_u8_as_f32(quad: quad_u8) -> vec4<f32> { return vec4<f32>(bytes_of(quad)); }
fn load_u8_as_i32(quad: quad_u8) -> vec4<i32> { return vec4<i32>(bytes_of(quad)); }
fn load_u8_as_bool(quad: quad_u8) -> vec4<bool> { return bytes_of(quad) != vec4<u32>(); }
fn load_i8_as_f32(quad: quad_i8) -> vec4<f32> { return vec4<f32>(signed_bytes_of(quad)); }
fn load_i8_as_i32(quad: quad_i8) -> vec4<i32> { return signed_bytes_of(quad); }
fn load_i8_as_bool(quad: quad_i8) -> vec4<bool> { return bytes_of(quad) != vec4<u32>(); }

// store_<computed>_as_<stored>; floats lose their fraction, integers wrap, as in torch
fn store_f32_as_f32(value: vec4<f32>) -> quad_f32 { return value; }
// Compilers differ on floats from 2**31 on: some give the largest float below it, some 2**31 - 1.
fn store_f32_as_i32(value: vec4<f32>) -> quad_i32 { return select(vec4<i32>(value), vec4<i32>(0x7fffffff), value >= vec4<f32>(2147483648.0)); }
fn store_f32_as_bool(value: vec4<f32>) -> quad_bool { return store_bool_as_bool(load_f32_as_bool(value)); }
fn store_f32_as_u8(value: vec4<f32>) -> quad_u8 { return store_i32_as_u8(store_f32_as_i32(value)); }
fn store_f32_as_i8(value: vec4<f32>) -> quad_i8 { return store_i32_as_i8(store_f32_as_i32(value)); }
fn store_i32_as_f32(value: vec4<i32>) -> quad_f32 { return vec4<f32>(value); }
fn store_i32_as_i32(value: vec4<i32>) -> quad_i32 { return value; }
fn store_i32_as_bool(value: vec4<i32>) -> quad_bool { return store_bool_as_bool(value != vec4<i32>()); }
fn store_i32_as_u8(value: vec4<i32>) -> quad_u8 { return word_of(vec4<u32>(value)); }
fn store_i32_as_i8(value: vec4<i32>) -> quad_i8 { return word_of(vec4<u32>(value)); }
fn store_bool_as_f32(value: vec4<bool>) -> quad_f32 { return vec4<f32>(value); }
fn store_bool_as_i32(value: vec4<bool>) -> quad_i32 { return vec4<i32>(value); }
fn store_bool_as_bool(value: vec4<bool>) -> quad_bool { return word_of(vec4<u32>(value)); }
fn store_bool_as_u8(value: vec4<bool>) -> quad_u8 { return word_of(vec4<u32>(value)); }
fn store_bool_as_i8(value: vec4<bool>) -> quad_i8 { return word_of(vec4<u32>(value)); }
