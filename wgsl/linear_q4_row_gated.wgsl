// Two linear layers of one row with quantized weights: output = silu(gate) * up. See lib/one_row.wgsl.

// use lib/quads.wgsl
// use lib/math.wgsl
// use lib/product.wgsl
// use lib/weights.wgsl
// use lib/wide_units.wgsl
// use lib/one_row.wgsl

struct Params {
    product: Product,
    inner: u32,
    row_bytes: u32,
    group: u32,
    scale_stride: u32, // the same for both
    eps: f32,
}

@group(0) @binding(0) var<storage, read> x: array<StoredQuad>;
@group(0) @binding(1) var<storage, read> gain: array<StoredQuad>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>; // of the gate
@group(0) @binding(3) var<storage, read> scales: array<StoredQuad>;
@group(0) @binding(4) var<storage, read> up_weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> up_scales: array<StoredQuad>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<uniform> params: Params;

fn scale_quad(column: u32, unit: u32) -> u32 {
    return (unit * values_per_unit() / GROUP_SIZE * params.scale_stride + column) / 4u;
}

fn fetch_gate(column: u32, unit: u32) -> Units {
    let at = column * UNITS + unit;
    return Units(
        weights[at], weights[at + UNITS], weights[at + 2u * UNITS], weights[at + 3u * UNITS],
        vec4<f32>(scales[scale_quad(column, unit)]),
    );
}

fn fetch_up(column: u32, unit: u32) -> Units {
    let at = column * UNITS + unit;
    return Units(
        up_weights[at], up_weights[at + UNITS], up_weights[at + 2u * UNITS], up_weights[at + 3u * UNITS],
        vec4<f32>(up_scales[scale_quad(column, unit)]),
    );
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let first = (group.x + group.y * groups.x) * COLUMNS;
    if (first >= params.product.n) {
        return;
    }
    let column = min(first + lane_of(thread) * 4u, params.product.n - 4u);
    var gates = fetch_gate(column, unit_of(0u, thread));
    var ups = fetch_up(column, unit_of(0u, thread));
    var run = fetch_x(0u, thread);
    var gate_sums = Quad();
    var up_sums = Quad();
    var squares = 0.0;
    for (var turn = 0u; turn < TURNS; turn++) {
        if (turn % CHUNK == 0u) {
            squares += stage_x(turn / CHUNK, thread, run);
        }
        let gates_now = gates;
        let ups_now = ups;
        if (turn + 1u < TURNS) {
            gates = fetch_gate(column, unit_of(turn + 1u, thread));
            ups = fetch_up(column, unit_of(turn + 1u, thread));
        }
        if (turn % CHUNK == 0u) {
            run = fetch_x(turn / CHUNK + 1u, thread);
            workgroupBarrier();
        }
        gate_sums = plus_units(gate_sums, gates_now, turn, thread);
        up_sums = plus_units(up_sums, ups_now, turn, thread);
        if ((turn + 1u) % CHUNK == 0u && turn + 1u < TURNS) {
            workgroupBarrier();
        }
    }
    put_sums(0u, thread, gate_sums);
    put_sums(1u, thread, up_sums);
    fold(thread, squares);
    if (thread < COLUMNS && first + thread < params.product.n) {
        let gate = sum_of(0u, thread);
        output[first + thread] = Out(gate * sigmoid(vec4<f32>(gate)).x * sum_of(1u, thread));
    }
}
