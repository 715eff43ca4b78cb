// Three small GEMMs of one A with matrices [n, k], in one dispatch: see lib/gemm/gemm_small.wgsl. Each has
// its own output and its own bias.

// use lib/gemm/gemm.wgsl
// use lib/gemm/gemm_small.wgsl

struct Params {
    gemm: Gemm, // n_parts of all three; n is ignored
    // Of each matrix: columns, its first workgroup along n, and whether it has a bias.
    matrices: array<vec4<u32>, 3>,
}

@group(0) @binding(0) var<storage, read> a: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> b: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> second_b: array<StoredQuad>;
@group(0) @binding(3) var<storage, read> third_b: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> bias: array<Stored>;
@group(0) @binding(5) var<storage, read> second_bias: array<Stored>;
@group(0) @binding(6) var<storage, read> third_bias: array<Stored>;
@group(0) @binding(7) var<storage, read_write> output: array<Out>;
@group(0) @binding(8) var<storage, read_write> second_output: array<Out>;
@group(0) @binding(9) var<storage, read_write> third_output: array<Out>;
@group(0) @binding(10) var<uniform> params: Params;

var<private> matrix: u32; // the same in all invocations of a workgroup

fn a_quad(at: u32) -> Quad { return Quad(a[at / 4u]); }

// One branch for all four, so that their reads are in flight together.
fn b_block(at: vec4<u32>) -> Block {
    let i = at / 4u;
    if (matrix == 0u) {
        return Block(Quad(b[i.x]), Quad(b[i.y]), Quad(b[i.z]), Quad(b[i.w]));
    }
    if (matrix == 1u) {
        return Block(Quad(second_b[i.x]), Quad(second_b[i.y]), Quad(second_b[i.z]), Quad(second_b[i.w]));
    }
    return Block(Quad(third_b[i.x]), Quad(third_b[i.y]), Quad(third_b[i.z]), Quad(third_b[i.w]));
}

fn bias_at(column: u32) -> Number {
    if (params.matrices[matrix].z == 0u) {
        return Number();
    }
    if (matrix == 0u) {
        return Number(bias[column]);
    }
    if (matrix == 1u) {
        return Number(second_bias[column]);
    }
    return Number(third_bias[column]);
}

fn finish(part: Part, row: u32, column: u32, sums: Quad) {
    let columns = params.matrices[matrix].x;
    for (var i = 0u; i < min(4u, columns - column); i++) {
        let at = row * columns + column + i;
        let value = Out(sums[i] + bias_at(column + i));
        if (matrix == 0u) {
            output[at] = value;
        } else if (matrix == 1u) {
            second_output[at] = value;
        } else {
            third_output[at] = value;
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    var part = part_of(group, groups, TILE_ROWS, 1u);
    if (!part.exists) {
        return;
    }
    matrix = u32(part.column >= params.matrices[1].y) + u32(part.column >= params.matrices[2].y);
    part.column = (part.column - params.matrices[matrix].y) * TILE_COLUMNS;
    multiply_small(part, thread, 0u, 0u, params.matrices[matrix].x);
}
