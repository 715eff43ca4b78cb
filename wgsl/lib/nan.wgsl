// Comparisons that keep a NaN. It is detected by its bits: a compiler may assume that `x != x` is false.

fn is_nan_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_nan_vec4f(x: vec4f) -> vec4<bool> {
    return (bitcast<vec4u>(x) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u);
}

fn larger_f32(a: f32, b: f32) -> f32 {
    return select(select(max(a, b), b, is_nan_f32(b)), a, is_nan_f32(a));
}
fn larger_vec4f(a: vec4f, b: vec4f) -> vec4f {
    return select(select(max(a, b), b, is_nan_vec4f(b)), a, is_nan_vec4f(a));
}

fn smaller_f32(a: f32, b: f32) -> f32 {
    return select(select(min(a, b), b, is_nan_f32(b)), a, is_nan_f32(a));
}
fn smaller_vec4f(a: vec4f, b: vec4f) -> vec4f {
    return select(select(min(a, b), b, is_nan_vec4f(b)), a, is_nan_vec4f(a));
}
