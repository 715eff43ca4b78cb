// The elements of an item: one, or the four of a quad.

// use lib/nan.wgsl

fn sum_f32(x: f32) -> f32 { return x; }
fn sum_vec4f(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }

fn max_f32(x: f32) -> f32 { return x; }
fn max_vec4f(x: vec4f) -> f32 { return larger_f32(larger_f32(x.x, x.y), larger_f32(x.z, x.w)); }
