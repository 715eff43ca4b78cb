// The operands of a GEMM of plain matrices, as blocks. Bindings `a` and `b` are arrays of
// StoredQuad; goes with lib/gemm/gemm.wgsl.
//
// A is [m, k] in memory, or [k, m] if A_K_FIRST is false; B is [n, k], or [k, n] if B_K_FIRST is
// false. If the length of a line is a multiple of four, its quads are read whole.

override A_K_FIRST: bool;
override B_K_FIRST: bool;
override A_ALIGNED: bool;
override B_ALIGNED: bool;

// (lines, elements per line)
fn a_extent() -> vec2<u32> {
    return select(vec2<u32>(params.gemm.k, params.gemm.m), vec2<u32>(params.gemm.m, params.gemm.k), A_K_FIRST);
}

fn b_extent() -> vec2<u32> {
    return select(vec2<u32>(params.gemm.k, params.gemm.n), vec2<u32>(params.gemm.n, params.gemm.k), B_K_FIRST);
}

fn a_run(batch: u32, line: u32, along: u32) -> Quad {
    let extent = a_extent();
    if (line >= extent.x || along >= extent.y) {
        return Quad();
    }
    let at = (batch * extent.x + line) * extent.y + along;
    if (A_ALIGNED) {
        return Quad(a[at / 4u]);
    }
    var run = Quad();
    for (var i = 0u; i < min(4u, extent.y - along); i++) {
        run[i] = Number(a[(at + i) / 4u][(at + i) % 4u]);
    }
    return run;
}

fn b_run(batch: u32, line: u32, along: u32) -> Quad {
    let extent = b_extent();
    if (line >= extent.x || along >= extent.y) {
        return Quad();
    }
    let at = (batch * extent.x + line) * extent.y + along;
    if (B_ALIGNED) {
        return Quad(b[at / 4u]);
    }
    var run = Quad();
    for (var i = 0u; i < min(4u, extent.y - along); i++) {
        run[i] = Number(b[(at + i) / 4u][(at + i) % 4u]);
    }
    return run;
}

fn a_lines(batch: u32, line: u32, along: u32) -> Block {
    return Block(
        a_run(batch, line, along),
        a_run(batch, line + 1u, along),
        a_run(batch, line + 2u, along),
        a_run(batch, line + 3u, along),
    );
}

fn b_lines(batch: u32, line: u32, along: u32) -> Block {
    return Block(
        b_run(batch, line, along),
        b_run(batch, line + 1u, along),
        b_run(batch, line + 2u, along),
        b_run(batch, line + 3u, along),
    );
}

// Blocks in the order of memory.
fn fetch_a(part: Part, row: u32, k: u32) -> Block {
    if (A_K_FIRST) {
        return a_lines(part.batch, row, k);
    }
    return a_lines(part.batch, k, row);
}

fn fetch_b(part: Part, column: u32, k: u32) -> Block {
    if (B_K_FIRST) {
        return b_lines(part.batch, column, k);
    }
    return b_lines(part.batch, k, column);
}

fn a_block(lines: Block) -> Block {
    if (A_K_FIRST) {
        return transposed(lines);
    }
    return lines;
}

fn b_block(lines: Block, column: u32, k: u32) -> Block {
    if (B_K_FIRST) {
        return transposed(lines);
    }
    return lines;
}
