// lib/quads.wgsl for f16: stored as f16, computed as f32.

alias quad_f16 = vec4<f16>;

fn load_f16_as_f32(quad: quad_f16) -> vec4<f32> { return vec4<f32>(quad); }
fn load_f16_as_i32(quad: quad_f16) -> vec4<i32> { return vec4<i32>(quad); }
fn load_f16_as_bool(quad: quad_f16) -> vec4<bool> { return load_f32_as_bool(vec4<f32>(quad)); }
fn store_f32_as_f16(value: vec4<f32>) -> quad_f16 { return vec4<f16>(value); }
fn store_i32_as_f16(value: vec4<i32>) -> quad_f16 { return vec4<f16>(vec4<f32>(value)); }
fn store_bool_as_f16(value: vec4<bool>) -> quad_f16 { return vec4<f16>(value); }
