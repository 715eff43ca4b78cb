// The reduction after attention with split keys: a workgroup merges the splits of one row.
//
// A split has its sum of weighted values, its maximum and its sum of weights. A split without keys has
// the sum 0; its values were never written and are ignored.

const THREADS = 256u;
const SPLITS = ${SPLITS}u;
const LOWEST_LOGIT = -1e30;

override VALUE_HEAD: u32;
override WIDTH: u32 = min(VALUE_HEAD, THREADS); // elements at once
override GROUPS: u32 = THREADS / WIDTH; // of splits
const STEPS = ${STEPS}u; // of the groups through all splits

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

var<workgroup> split_stats: array<vec2<f32>, SPLITS>; // maximum and sum of each
var<workgroup> weights: array<vec2<f32>, SPLITS>; // of its values, and of its sum
var<workgroup> parts: array<f32, THREADS>;

fn weight_of(split: vec2<f32>, highest: f32) -> f32 {
    return select(exp(split.x - highest), 0.0, split.y == 0.0);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = workgroup.x + workgroup.y * workgroups.x;
    if (row >= params.rows) {
        return;
    }
    if (local < SPLITS) {
        split_stats[local] = stats[row * SPLITS + local];
    }
    let batch = row / (params.tokens * params.heads);
    let start = batch * params.output.x + row % params.heads * params.output.y
        + row / params.heads % params.tokens * params.output.z;
    let group = local / WIDTH;
    for (var first = 0u; first < VALUE_HEAD; first += WIDTH) {
        let element = first + local % WIDTH;
        // Prefetched while the weights are computed.
        var found = array<f32, STEPS>();
        for (var step = 0u; step < STEPS; step++) {
            let split = min(step * GROUPS + group, SPLITS - 1u);
            found[step] = values[(row * SPLITS + split) * VALUE_HEAD + min(element, VALUE_HEAD - 1u)];
        }
        workgroupBarrier();
        if (local < SPLITS) {
            var highest = LOWEST_LOGIT;
            for (var i = 0u; i < SPLITS; i++) {
                highest = max(highest, split_stats[i].x);
            }
            let weight = weight_of(split_stats[local], highest);
            weights[local] = vec2<f32>(weight, weight * split_stats[local].y);
        }
        workgroupBarrier();
        var sum = 0.0;
        for (var i = 0u; i < SPLITS; i++) {
            sum += weights[i].y;
        }
        var part = 0.0;
        for (var step = 0u; step < STEPS; step++) {
            let split = step * GROUPS + group;
            if (split < SPLITS && group < GROUPS) {
                let weight = weights[split].x;
                part += select(weight * found[step], 0.0, weight == 0.0);
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
    }
}
