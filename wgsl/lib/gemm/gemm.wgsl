// The sizes of a GEMM, and the part of it that a workgroup computes:
// output[batch, row, column] = alpha * (sum over k of A[row, k] * B[k, column]) + beta * addend.
//
// A kernel that uses this file declares `output`, an array of Out, and `params.gemm`; lib/gemm/plain_epilogue.wgsl
// writes there. With split-K it stores plain sums, one matrix per part, and
// gemm_split_k_sum.wgsl adds them up.

alias Number = ${TYPE}; // of the arithmetic
alias Quad = vec4<Number>;
alias Stored = ${STORED}; // of tensors in memory
alias StoredQuad = vec4<Stored>;
alias Out = ${OUT}; // Stored; Number for parts of sums

struct Gemm {
    m: u32,
    n: u32,
    k: u32,
    batches: u32,
    m_parts: u32, // workgroups along m, n and k
    n_parts: u32,
    k_parts: u32,
    k_part: u32, // length of k of one workgroup
    addend_row: u32, // strides of the addend, 0 if it is broadcast
    addend_column: u32,
    alpha: Number,
    beta: Number,
}

// The part of one workgroup: its first row and column, and its range of k.
struct Part {
    exists: bool, // a folded grid may have a few workgroups too many
    batch: u32,
    row: u32,
    column: u32,
    k_begin: u32,
    k_end: u32,
    output: u32, // where the part's matrix starts
}

// Rows count fastest: neighbouring workgroups share the columns of B, which is often the larger matrix.
fn part_of(group: vec3<u32>, groups: vec3<u32>, rows: u32, columns: u32) -> Part {
    let gemm = params.gemm;
    let index = group.x + group.y * groups.x;
    let m_part = index % gemm.m_parts;
    let n_part = index / gemm.m_parts % gemm.n_parts;
    let matrix = index / (gemm.m_parts * gemm.n_parts);
    let k_index = matrix / gemm.batches;
    let k_begin = k_index * gemm.k_part;
    return Part(
        k_index < gemm.k_parts,
        matrix % gemm.batches,
        m_part * rows,
        n_part * columns,
        k_begin,
        min(k_begin + gemm.k_part, gemm.k),
        matrix * gemm.m * gemm.n,
    );
}

// Four k of four rows of A, or of four columns of B: one quad per k.
struct Block {
    k0: Quad,
    k1: Quad,
    k2: Quad,
    k3: Quad,
}

fn transposed(block: Block) -> Block {
    return Block(
        Quad(block.k0.x, block.k1.x, block.k2.x, block.k3.x),
        Quad(block.k0.y, block.k1.y, block.k2.y, block.k3.y),
        Quad(block.k0.z, block.k1.z, block.k2.z, block.k3.z),
        Quad(block.k0.w, block.k1.w, block.k2.w, block.k3.w),
    );
}
