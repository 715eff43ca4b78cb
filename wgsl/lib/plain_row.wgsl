// The x of lib/one_row.wgsl as it lies in memory, in an array of StoredQuad.

fn await_x(thread: u32) {}

fn x_at(quad: u32) -> vec4<f32> { return vec4<f32>(x[quad]); }
