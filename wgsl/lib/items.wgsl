// The elements of an item: one, or the four of a quad. Memory holds them as FLOAT, which is f32 or
// f16; they are computed in f32.

// use lib/nan.wgsl

alias stored_f32 = ${FLOAT};
alias stored_vec4f = vec4<${FLOAT}>;

fn sum_f32(x: f32) -> f32 { return x; }
fn sum_vec4f(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }

fn max_f32(x: f32) -> f32 { return x; }
fn max_vec4f(x: vec4f) -> f32 { return larger_f32(larger_f32(x.x, x.y), larger_f32(x.z, x.w)); }
