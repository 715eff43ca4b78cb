// The flat index of an invocation in a grid that may be folded to two dimensions
// (a dimension holds 65,535 workgroups at most). The kernel checks the index against its range.

const WORKGROUP_SIZE = 64u;

fn flat_index(invocation: vec3<u32>, workgroups: vec3<u32>) -> u32 {
    return invocation.x + invocation.y * workgroups.x * WORKGROUP_SIZE;
}
