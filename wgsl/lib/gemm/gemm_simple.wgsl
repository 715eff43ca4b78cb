// A GEMM for software adapters: an invocation computes ROWS x 4 elements in registers, with one plain
// loop. Workgroup memory and barriers would take such an adapter minutes to compile.
//
// A kernel that uses this file (and lib/gemm/gemm.wgsl and lib/grid.wgsl) supplies
//     fn a_quad(k: u32) -> Quad    of the rows of this invocation; with ROWS = 1 the first counts
//     fn b_quad(k: u32) -> Quad    of its columns
// Rows and columns beyond the last one may be anything: they are not written.

const ROWS = ${ROWS}u; // 1 or 4

// The place of an invocation: its batch, first row and first column. m_parts and n_parts of the GEMM
// count invocations.
fn place_of(index: u32) -> vec3<u32> {
    let gemm = params.gemm;
    let column = index % gemm.n_parts;
    let row = index / gemm.n_parts % gemm.m_parts;
    return vec3<u32>(index / (gemm.n_parts * gemm.m_parts), row * ROWS, column * 4u);
}

fn is_inside(place: vec3<u32>) -> bool {
    return place.x < params.gemm.batches;
}

const STRETCH = 64u;

// The sums over begin <= k < end: a quad of columns per row. Each stretch has a partial sum: a single
// sum of thousands of terms would lose digits.
fn sums_over(begin: u32, end: u32) -> Block {
    var sums = Block();
    for (var first = begin; first < end; first += STRETCH) {
        var part = Block();
        for (var k = first; k < min(first + STRETCH, end); k++) {
            let left = a_quad(k);
            let right = b_quad(k);
            part.k0 += left.x * right;
            if (ROWS > 1u) {
                part.k1 += left.y * right;
                part.k2 += left.z * right;
                part.k3 += left.w * right;
            }
        }
        sums.k0 += part.k0;
        if (ROWS > 1u) {
            sums.k1 += part.k1;
            sums.k2 += part.k2;
            sums.k3 += part.k3;
        }
    }
    return sums;
}

// The row and the element are looked up in a loop: each memory access costs time to compile.
fn write_sums(place: vec3<u32>, sums: Block) {
    let gemm = params.gemm;
    for (var i = 0u; i < ROWS * 4u; i++) {
        let row = place.y + i / 4u;
        let column = place.z + i % 4u;
        if (row < gemm.m && column < gemm.n) {
            var quad = sums.k0;
            if (ROWS > 1u) {
                quad = select(quad, sums.k1, i / 4u == 1u);
                quad = select(quad, sums.k2, i / 4u == 2u);
                quad = select(quad, sums.k3, i / 4u == 3u);
            }
            let added = Number(addend[row * gemm.addend_row + column * gemm.addend_column]);
            let at = (place.x * gemm.m + row) * gemm.n + column;
            output[at] = Out(gemm.alpha * quad[i % 4u] + gemm.beta * added);
        }
    }
}
