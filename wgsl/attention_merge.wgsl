// The second half of attention whose keys were split: a workgroup weighs the shares of one row.
//
// A share brings its sum of weighted values, its maximum and its sum of weights. One that saw no
// key has the sum 0, and its values were never written.

const SIZE = 256u;
const MAX_SPLITS = 64u;
const FLOOR = -1e30;

override VALUE_HEAD: u32;
override WIDTH: u32 = min(VALUE_HEAD, SIZE); // elements at once
override GROUPS: u32 = SIZE / WIDTH; // of shares

alias Stored = ${FLOAT};

struct Params {
    rows: u32,
    tokens: u32,
    heads: u32,
    splits: u32,
    output: vec4<u32>, // strides in elements: of a batch, a head, a token
}

@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> output: array<Stored>;
@group(0) @binding(3) var<uniform> params: Params;

var<workgroup> maxima: array<f32, MAX_SPLITS>;
var<workgroup> weights: array<f32, MAX_SPLITS>;
var<workgroup> sums: array<f32, MAX_SPLITS>;
var<workgroup> parts: array<f32, SIZE>;

@compute @workgroup_size(SIZE)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = workgroup.x + workgroup.y * workgroups.x;
    if (row >= params.rows) {
        return;
    }
    var stat = vec2<f32>(FLOOR, 0.0);
    if (local < params.splits) {
        stat = stats[row * params.splits + local];
        maxima[local] = stat.x;
    }
    workgroupBarrier();
    var highest = FLOOR;
    for (var i = 0u; i < params.splits; i++) {
        highest = max(highest, maxima[i]);
    }
    if (local < params.splits) {
        let weight = select(exp(stat.x - highest), 0.0, stat.y == 0.0);
        weights[local] = weight;
        sums[local] = weight * stat.y;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < params.splits; i++) {
        sum += sums[i];
    }
    let batch = row / (params.tokens * params.heads);
    let start = batch * params.output.x + row % params.heads * params.output.y
        + row / params.heads % params.tokens * params.output.z;
    let group = local / WIDTH;
    for (var first = 0u; first < VALUE_HEAD; first += WIDTH) {
        let element = first + local % WIDTH;
        var part = 0.0;
        if (element < VALUE_HEAD && group < GROUPS) {
            for (var i = group; i < params.splits; i += GROUPS) {
                if (weights[i] != 0.0) {
                    part += weights[i] * values[(row * params.splits + i) * VALUE_HEAD + element];
                }
            }
        }
        parts[local] = part;
        workgroupBarrier();
        if (element < VALUE_HEAD && group == 0u) {
            for (var i = 1u; i < GROUPS; i++) {
                part += parts[i * WIDTH + local];
            }
            output[start + element] = Stored(select(part / sum, 0.0, sum == 0.0));
        }
        workgroupBarrier();
    }
}
