// Average pooling: out = sum of the window / divisor. VALUE is what it computes in, f32 or i32.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/elements.wgsl
// use lib/pool/pool.wgsl

// Whether the padding counts, but not what lies beyond it.
override COUNT_PADDING: bool;

@group(0) @binding(0) var<storage, read> input: array<word_${STORED}>;
@group(0) @binding(1) var<storage, read_write> output: array<quad_${STORED}>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> sums: array<vec4<${VALUE}>, WORKGROUP_SIZE>;

fn extent(first: vec4<i32>, kernel: i32, size: i32, padding: i32) -> vec4<i32> {
    let end = min(first + kernel, vec4<i32>(size + padding));
    if (COUNT_PADDING) {
        return end - first;
    }
    return max(min(end, vec4<i32>(size)) - max(first, vec4<i32>()), vec4<i32>());
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(global_invocation_id) invocation: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = flat_index(invocation, workgroups);
    let quad = index / LANES;
    let lane = index % LANES;
    let windows = windows_of(quad);
    var sum = vec4<${VALUE}>();
    if (quad < params.quads) {
        for (var tap = lane; tap < u32(params.kernel.x * params.kernel.y); tap += LANES) {
            let place = tap_places(windows, tap);
            if (place.x >= 0) { sum.x += element(windows.channel_at.x + place.x); }
            if (place.y >= 0) { sum.y += element(windows.channel_at.y + place.y); }
            if (place.z >= 0) { sum.z += element(windows.channel_at.z + place.z); }
            if (place.w >= 0) { sum.w += element(windows.channel_at.w + place.w); }
        }
    }
    if (LANES > 1u) {
        for (var half = LANES / 2u; half > 0u; half /= 2u) {
            sums[local] = sum;
            workgroupBarrier();
            sum += sums[min(local + half, WORKGROUP_SIZE - 1u)];
            workgroupBarrier();
        }
    }
    if (quad >= params.quads || lane > 0u) {
        return;
    }
    var divisor = extent(windows.h, params.kernel.x, params.in_size.x, params.padding.x)
        * extent(windows.w, params.kernel.y, params.in_size.y, params.padding.y);
    if (params.divisor != 0) {
        divisor = vec4<i32>(params.divisor);
    }
    // An empty window gives 0.
    output[quad] = store_${VALUE}_as_${STORED}(sum / vec4<${VALUE}>(select(divisor, vec4<i32>(1), divisor == vec4<i32>())));
}
