// Small GEMMs with an epilogue: see lib/gemm/gemm_small.wgsl.
// output = f(x, y), x being alpha * sums + beta * addend, and y the residual.

// use lib/gemm/gemm.wgsl
// use lib/math.wgsl
// use lib/gemm/gemm_small.wgsl

const PER_ELEMENT = 1u; // `residual` is like the output; y is 0 from its `params.residual`-th element on
const PER_ROW = 2u;
override RESIDUAL: u32; // 0: none

alias StoredB = ${B_STORED}; // a quad if columns and rows of B are whole quads, else an element

struct Params {
    gemm: Gemm,
    a_batch: u32, // from one matrix to the next
    b_batch: u32,
    a: f32, // of the formula
    b: f32,
    c: f32,
    residual: u32,
}

@group(0) @binding(0) var<storage, read> a: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> b: array<StoredB>;
@group(0) @binding(2) var<storage, read> addend: array<Stored>;
@group(0) @binding(3) var<storage, read> residual: array<Stored>;
@group(0) @binding(4) var<storage, read_write> output: array<Out>;
@group(0) @binding(5) var<uniform> params: Params;

alias Vec = Quad;

fn a_quad(at: u32) -> Quad { return Quad(a[at / 4u]); }
fn b_quad(at: u32) -> Quad { return ${B_QUAD}; }
fn b_block(at: vec4<u32>) -> Block { return Block(b_quad(at.x), b_quad(at.y), b_quad(at.z), b_quad(at.w)); }
fn epilogue(x: Vec, y: Vec, a: f32, b: f32, c: f32) -> Vec { return ${FORMULA}; }

fn finish(part: Part, row: u32, column: u32, sums: Quad) {
    let gemm = params.gemm;
    let at = part.output + row * gemm.n + column;
    let last = gemm.n - 1u - column; // the last quad may end past the matrix
    let four = min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
    let add_at = row * gemm.addend_row + (column + four) * gemm.addend_column;
    let added = Quad(vec4<Stored>(addend[add_at.x], addend[add_at.y], addend[add_at.z], addend[add_at.w]));
    var value = gemm.alpha * sums + gemm.beta * added;
    var y = Vec();
    if (RESIDUAL == PER_ELEMENT) {
        let other = vec4<u32>(at) + four;
        let found = Quad(vec4<Stored>(residual[other.x], residual[other.y], residual[other.z], residual[other.w]));
        y = select(Vec(), found, other < vec4<u32>(params.residual));
    }
    if (RESIDUAL == PER_ROW) {
        y = Vec(Number(residual[row]));
    }
    value = epilogue(value, y, params.a, params.b, params.c);
    output[at] = Out(value.x);
    if (last > 0u) { output[at + 1u] = Out(value.y); }
    if (last > 1u) { output[at + 2u] = Out(value.z); }
    if (last > 2u) { output[at + 3u] = Out(value.w); }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, TILE_ROWS, TILE_COLUMNS);
    if (part.exists) {
        multiply_small(part, thread, part.batch * params.a_batch, part.batch * params.b_batch, params.gemm.n);
    }
}
