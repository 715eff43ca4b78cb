// Linear layers with quantized weights of any size on software adapters: see
// lib/gemm/gemm_simple.wgsl. With BACKWARD, x is multiplied by W itself, not by its transpose.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/quotient.wgsl
// use lib/quant/scale_pair.wgsl
// use lib/gemm/gemm.wgsl
// use lib/gemm/gemm_simple.wgsl

const HIGH_FIRST = 1u; // formats as in lib/gemm/q4_weights.wgsl
const BYTES = 2u;
override FORMAT: u32;
override BACKWARD: bool = false;
override QUANTIZED: bool; // as in lib/gemm/linear_q4_input.wgsl
override ZEROS: bool = false; // each scale is followed by a zero that is added; not with BACKWARD

struct Params {
    gemm: Gemm,
    inner: u32, // values in a row of weights
    row_bytes: u32,
    group: u32, // values of a row that share a scale
    scale_stride: u32, // from one group's scales to the next one's
}

@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> row_scales: array<Stored>;
@group(0) @binding(2) var<storage, read> row_zeros: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read> weights: array<u32>;
@group(0) @binding(4) var<storage, read> scales: array<Stored>;
@group(0) @binding(5) var<storage, read> addend: array<Stored>;
@group(0) @binding(6) var<storage, read_write> output: array<Out>;
@group(0) @binding(7) var<uniform> params: Params;

var<private> rows_at: vec4<u32>; // where the rows begin in x
var<private> row_scale: vec4<f32>;
var<private> row_inverse: vec4<f32>;
var<private> row_zero: vec4<f32>;
var<private> columns: vec4<u32>;
var<private> group_scales: vec4<f32>; // with ZEROS, those of the group under way
var<private> group_zeros: vec4<f32>;

// Rounds x to int8 and back.
fn fake_quantize_int8(values: vec4<f32>) -> vec4<f32> {
    let rounded = round(values * row_inverse) + row_zero;
    return (clamp(rounded, vec4<f32>(-128.0), vec4<f32>(127.0)) - row_zero) * row_scale;
}

fn a_quad(k: u32) -> Quad {
    let at = rows_at + k;
    var values = Quad(f32(x[at.x]));
    if (ROWS > 1u) {
        values = Quad(values.x, f32(x[at.y]), f32(x[at.z]), f32(x[at.w]));
    }
    if (QUANTIZED) {
        return fake_quantize_int8(values);
    }
    return values;
}

// Codes, which are not scaled yet; with ZEROS, weights.
fn b_quad(k: u32) -> Quad {
    let row = select(columns, vec4<u32>(k), BACKWARD);
    let inner = select(vec4<u32>(k), columns, BACKWARD);
    let byte = row * params.row_bytes + select(inner / 2u, inner, FORMAT == BYTES);
    let at = byte / 4u;
    let words = vec4<u32>(weights[at.x], weights[at.y], weights[at.z], weights[at.w]);
    var shift = byte % 4u * 8u;
    if (FORMAT == BYTES) {
        return vec4<f32>(bitcast<vec4<i32>>(words << (24u - shift)) >> vec4<u32>(24u));
    }
    shift += 4u * select(inner % 2u, 1u - inner % 2u, FORMAT == HIGH_FIRST);
    let codes = vec4<f32>((words >> shift) & vec4<u32>(0xfu)) - 8.0;
    if (ZEROS) {
        return codes * group_scales + group_zeros;
    }
    return codes;
}

// Of the columns, from `k` on.
fn scales_from(k: u32) -> Quad {
    let row = select(columns, vec4<u32>(k), BACKWARD);
    let inner = select(vec4<u32>(k), columns, BACKWARD);
    let at = inner / params.group * params.scale_stride + row;
    if (ZEROS) {
        let zero = 2u * at + 1u;
        group_scales = Quad(f32(scales[zero.x - 1u]), f32(scales[zero.y - 1u]), f32(scales[zero.z - 1u]), f32(scales[zero.w - 1u]));
        group_zeros = Quad(f32(scales[zero.x]), f32(scales[zero.y]), f32(scales[zero.z]), f32(scales[zero.w]));
        return Quad(1.0);
    }
    return Quad(f32(scales[at.x]), f32(scales[at.y]), f32(scales[at.z]), f32(scales[at.w]));
}

fn find_rows(place: vec3<u32>) {
    let row = min(place.y + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.gemm.m - 1u));
    rows_at = row * params.gemm.k;
    if (QUANTIZED) {
        for (var i = 0u; i < ROWS; i++) {
            let scale = scale_pair(f32(row_scales[row[i]]));
            row_scale[i] = scale.x;
            row_inverse[i] = scale.y;
            row_zero[i] = load_${ZERO}_as_f32(row_zeros[row[i] / 4u])[row[i] % 4u];
        }
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let place = place_of(flat_index(invocation, workgroups));
    if (!is_inside(place)) {
        return;
    }
    find_rows(place);
    columns = min(place.z + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.gemm.n - 1u));
    let length = params.gemm.k;
    // How long a column keeps its scale.
    let stretch = select(params.group, 1u, BACKWARD);
    var sums = Block();
    for (var k = 0u; k < length; k += stretch) {
        let scale = scales_from(k);
        let found = sums_over(k, min(length, k + stretch));
        sums.k0 += found.k0 * scale;
        if (ROWS > 1u) {
            sums.k1 += found.k1 * scale;
            sums.k2 += found.k2 * scale;
            sums.k3 += found.k3 * scale;
        }
    }
    write_sums(place, sums);
}
