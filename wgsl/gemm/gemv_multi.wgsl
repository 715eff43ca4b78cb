// Skinny GEMMs of one x, maybe normalized before, with up to three matrices [n, k] of floats, as fast as
// these can be read. k is a multiple of four.
//
// The outputs are in one buffer, each at its place in `params.matrices`, and a workgroup has columns of one
// of them. With GATED, output = gate_of(first) * second, and an invocation has four columns of both.

// use lib/math.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/gemm_skinny.wgsl
// use lib/gemm/x_quads.wgsl
// use lib/gemm/prologue.wgsl

override GATED: bool;

struct Params {
    gemm: Gemm,
    // Of each matrix: columns, its first workgroup, unused, and where in the output it begins
    matrices: array<vec4<u32>, 3>,
    eps: f32,
    min_scale: f32, // ignored
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> first: array<StoredQuad>;
@group(0) @binding(3) var<storage, read> second: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> third: array<StoredQuad>;
@group(0) @binding(5) var<storage, read_write> output: array<Out>;
@group(0) @binding(6) var<uniform> params: Params;

alias Vec = vec4<f32>;

fn gate_of(x: Vec) -> Vec { return ${GATE}; }

// `matrix` is the same in all invocations of a workgroup.
fn quad_at(matrix: u32, at: u32) -> vec4<f32> {
    if (matrix == 0u) {
        return vec4<f32>(first[at]);
    }
    if (matrix == 1u) {
        return vec4<f32>(second[at]);
    }
    return vec4<f32>(third[at]);
}

// Four k of four columns, one quad per column; columns past the end read the last one.
fn columns_at(matrix: u32, columns: vec4<u32>, k: u32) -> Block {
    let at = (columns * params.gemm.k + k) / 4u;
    return Block(quad_at(matrix, at.x), quad_at(matrix, at.y), quad_at(matrix, at.z), quad_at(matrix, at.w));
}

fn accumulate_columns(sums: ptr<function, Sums>, row: u32, k: u32, block: Block) {
    for (var i = 0u; i < ROWS; i++) {
        let met = prologue_quad(row + i, k);
        (*sums)[i] += Quad(dot(met, block.k0), dot(met, block.k1), dot(met, block.k2), dot(met, block.k3));
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, ROWS, 1u);
    if (!part.exists) {
        return;
    }
    var matrix = u32(part.column >= params.matrices[1].y) + u32(part.column >= params.matrices[2].y);
    if (GATED) {
        matrix = 0u;
    }
    let shape = params.matrices[matrix];
    let column = (part.column - shape.y) * LANES * 4u + lane_of(thread) * 4u;
    let columns = min(column + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(shape.x - 1u));
    var sums: Sums;
    var ups: Sums;
    var squares: Squares;
    for (var k = slice_of(thread) * 4u; k < params.gemm.k; k += SLICES * 4u) {
        accumulate_columns(&sums, part.row, k, columns_at(matrix, columns, k));
        if (GATED) {
            accumulate_columns(&ups, part.row, k, columns_at(1u, columns, k));
        }
        add_squares(&squares, part.row, k, 4u);
    }
    reduce_slices(thread, sums, squares);
    var found: Sums;
    for (var row = 0u; row < ROWS; row++) {
        found[row] = sums_of(thread, row);
    }
    if (GATED) {
        workgroupBarrier();
        reduce_slices(thread, ups, squares);
        for (var row = 0u; row < ROWS; row++) {
            found[row] = gate_of(found[row]) * sums_of(thread, row);
        }
    }
    if (thread >= LANES) {
        return;
    }
    for (var row = 0u; row < ROWS; row++) {
        for (var i = 0u; i < 4u; i++) {
            if (part.row + row < params.gemm.m && column + i < shape.x) {
                output[shape.w + (part.row + row) * shape.x + column + i] = Out(found[row][i]);
            }
        }
    }
}
