// Two linear layers of one x with quantized weights, for few rows: output = gate_of(gate) * up, gate_of being silu
// or another formula.
// An invocation has four columns of both. Weights are wide: see linear_q4_skinny.wgsl.

// use lib/quads.wgsl
// use lib/math.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/q4_weights.wgsl
// use lib/gemm/q4_units.wgsl
// use lib/gemm/gemm_skinny.wgsl
// use lib/gemm/x_quads.wgsl
// use lib/gemm/prologue.wgsl
// use lib/gemm/linear_q4_skinny.wgsl

struct Params {
    gemm: Gemm,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32, // the same for both
    eps: f32,
    min_scale: f32,
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>; // of the gate
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> up_weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> up_scales: array<StoredQuad>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<uniform> params: Params;

const TWICE = ${TWICE}; // whether gate and up are multiplied at once, for many rows

alias Vec = vec4<f32>;

fn gate_of(x: Vec) -> Vec { return ${GATE}; }

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let part = part_of(group, groups, ROWS, LANES * 4u);
    if (!part.exists) {
        return;
    }
    find_row_qparams(thread, part.row);
    let column = column_of(part, thread);
    let units = params.row_bytes / 16u;
    var gates: Sums;
    var ups: Sums;
    var squares: Squares;
    for (var unit = slice_of(thread); unit < units; unit += SLICES) {
        let at = column * units + unit;
        let k = unit * values_per_unit();
        let scale = (k / GROUP_SIZE * params.scale_stride + column) / 4u;
        let g0 = weights[at];
        let g1 = weights[at + units];
        let g2 = weights[at + 2u * units];
        let g3 = weights[at + 3u * units];
        let u0 = up_weights[at];
        let u1 = up_weights[at + units];
        let u2 = up_weights[at + 2u * units];
        let u3 = up_weights[at + 3u * units];
        let gate_scale = vec4<f32>(scales[scale]);
        let up_scale = vec4<f32>(up_scales[scale]);
        if (TWICE) {
            let gate = Units(g0, g1, g2, g3, gate_scale);
            accumulate_two_units(&gates, &ups, part.row, k, gate, Units(u0, u1, u2, u3, up_scale));
        } else {
            accumulate_units(&gates, part.row, k, g0, g1, g2, g3, gate_scale);
            accumulate_units(&ups, part.row, k, u0, u1, u2, u3, up_scale);
        }
        add_squares(&squares, part.row, k, values_per_unit());
    }
    reduce_slices(thread, gates, squares);
    var found: Sums;
    for (var row = 0u; row < ROWS; row++) {
        found[row] = sums_of(thread, row);
    }
    workgroupBarrier();
    reduce_slices(thread, ups, squares);
    if (thread >= LANES) {
        return;
    }
    for (var row = 0u; row < ROWS; row++) {
        let result = gate_of(found[row]) * sums_of(thread, row);
        for (var i = 0u; i < 4u; i++) {
            if (part.row + row < params.gemm.m && column + i < params.gemm.n) {
                output[(part.row + row) * params.gemm.n + column + i] = Out(result[i]);
            }
        }
    }
}
