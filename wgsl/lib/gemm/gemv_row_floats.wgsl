// The row of a GEMV as it is in memory: `x`, an array of StoredQuad. Goes with lib/gemm/gemv_q4.wgsl.

// use lib/gemm/gemv_floats.wgsl

fn row_quad(quad: u32) -> vec4<f32> { return vec4<f32>(x[quad]); }

fn first_x(thread: u32) -> Run { return fetch_x(0u, thread); }
