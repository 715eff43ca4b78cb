// Self-test of workgroup memory, barriers and atomics: see engine/gpu/self_test.py for what must come out.
//
// Each of GROUPS workgroups reverses its COUNT numbers through workgroup memory, adds them up by a tree, and
// takes part in atomic sums and maxima.

// use lib/self_test/bindings.wgsl

const COUNT = ${COUNT}u;
const GROUPS = ${GROUPS}u;
const SUMS = COUNT * GROUPS; // place of the workgroups' sums
const LARGEST = SUMS + GROUPS; // place of the workgroups' maxima
const TOTAL = LARGEST + GROUPS; // place of the sum and the maximum of all

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<atomic<u32>>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> values: array<u32, COUNT>;
var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(COUNT)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let value = input[group.x * COUNT + lane] + params.seed;
    values[lane] = value;
    atomicMax(&largest, value);
    atomicAdd(&output[TOTAL], value);
    atomicMax(&output[TOTAL + 1u], value);
    workgroupBarrier();
    atomicStore(&output[group.x * COUNT + lane], values[COUNT - 1u - lane]);
    workgroupBarrier();
    for (var half = COUNT / 2u; half > 0u; half /= 2u) {
        if (lane < half) {
            values[lane] += values[lane + half];
        }
        workgroupBarrier();
    }
    if (lane == 0u) {
        atomicStore(&output[SUMS + group.x], values[0]);
        atomicStore(&output[LARGEST + group.x], atomicLoad(&largest));
    }
}
