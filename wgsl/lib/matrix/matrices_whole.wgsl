// Matrices of 16 x 16, of devices that multiply 16 x 16 x 16 at once, and how they are loaded and stored. Goes with
// lib/matrix/subgroup_matrix.wgsl; lib/matrix/matrices_parts.wgsl is for other devices.
//
// `pairs` are pairs of blocks of 16 lines: LINE units of eight f16 for 16 numbers to be multiplied, SUMS_LINE units of four f32 for 16 sums. Places
// within a pair are constant: browsers omit a bounds check only for such.

alias FragmentA = subgroup_matrix_left<f16, 16, 16>;
alias FragmentB = subgroup_matrix_right<f16, 16, 16>;
alias Accumulator = subgroup_matrix_result<f32, 16, 16>;

fn load_first_a(pair: u32) -> FragmentA { return subgroupMatrixLoad<FragmentA, row_major>(&pairs[pair], 0u, LINE); }
fn load_second_a(pair: u32) -> FragmentA { return subgroupMatrixLoad<FragmentA, row_major>(&pairs[pair], BLOCK, LINE); }
fn load_first_b(pair: u32) -> FragmentB { return subgroupMatrixLoad<FragmentB, col_major>(&pairs[pair], 0u, LINE); }
fn load_second_b(pair: u32) -> FragmentB { return subgroupMatrixLoad<FragmentB, col_major>(&pairs[pair], BLOCK, LINE); }

fn mma(sums: Accumulator, left: FragmentA, right: FragmentB) -> Accumulator {
    return subgroupMatrixMultiplyAccumulate(left, right, sums);
}

// A fragment of A that outlives its copy in shared memory.
alias RegisterA = FragmentA;

fn to_registers(left: FragmentA) -> RegisterA { return left; }
fn mma_registers(sums: Accumulator, left: RegisterA, right: FragmentB) -> Accumulator { return mma(sums, left, right); }

fn store_sums(sums: Accumulator, pair: u32) {
    subgroupMatrixStore<row_major>(&pairs[pair], 0u, sums, SUMS_LINE);
}
