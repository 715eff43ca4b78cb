// The bandwidth of memory: a large buffer is read once, by as many invocations as a GPU has room for.

@group(0) @binding(0) var<storage, read> input: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;

override STRIDE: u32;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var seen = vec4<u32>(0u);
    for (var i = id.x; i < arrayLength(&input); i += STRIDE) {
        seen ^= input[i];
    }
    output[id.x] = seen.x ^ seen.y ^ seen.z ^ seen.w;
}
