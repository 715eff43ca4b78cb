// GEMM of two plain matrices of any size on software adapters: see lib/gemm/gemm_simple.wgsl.

// use lib/grid.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/gemm_simple.wgsl

struct Params {
    gemm: Gemm,
    a: vec4<u32>, // strides of a batch, a row and a k
    b: vec4<u32>, // of a batch, a column and a k
}

@group(0) @binding(0) var<storage, read> a: array<Stored>;
@group(0) @binding(1) var<storage, read> b: array<Stored>;
@group(0) @binding(2) var<storage, read> addend: array<Stored>;
@group(0) @binding(3) var<storage, read_write> output: array<Out>;
@group(0) @binding(4) var<uniform> params: Params;

var<private> rows_at: vec4<u32>;
var<private> columns_at: vec4<u32>;

fn a_quad(k: u32) -> Quad {
    let at = rows_at + k * params.a.z;
    if (ROWS == 1u) {
        return Quad(Number(a[at.x]));
    }
    return Quad(Number(a[at.x]), Number(a[at.y]), Number(a[at.z]), Number(a[at.w]));
}

fn b_quad(k: u32) -> Quad {
    let at = columns_at + k * params.b.z;
    return Quad(Number(b[at.x]), Number(b[at.y]), Number(b[at.z]), Number(b[at.w]));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let place = place_of(flat_index(invocation, workgroups));
    if (!is_inside(place)) {
        return;
    }
    let next = vec4<u32>(0u, 1u, 2u, 3u);
    let last = vec2<u32>(params.gemm.m, params.gemm.n) - 1u;
    rows_at = place.x * params.a.x + min(place.y + next, vec4<u32>(last.x)) * params.a.y;
    columns_at = place.x * params.b.x + min(place.z + next, vec4<u32>(last.y)) * params.b.y;
    write_sums(place, sums_over(0u, params.gemm.k));
}
