// A GEMM too small to fill a GPU with the tiles of lib/gemm/gemm_tile.wgsl: a workgroup computes a small tile, and
// its invocations form slices that split the sum over k. Operands are read directly, with no barrier until
// the slices are added up.
//
// Goes with lib/gemm/gemm.wgsl; k is a multiple of four, and A is [m, k] in memory. The kernel supplies
//     fn a_quad(at: u32) -> Quad                four k of a row
//     fn b_block(at: vec4<u32>) -> Block        of four columns four k each, or of four k four columns each
//     fn finish(part: Part, row: u32, column: u32, sums: Quad)     inside of the matrix, column by quads

override B_K_FIRST: bool; // B is [n, k] in memory, else [k, n]

const ROW_QUADS = ${ROW_QUADS}u;
const COLUMN_QUADS = ${COLUMN_QUADS}u;
const AHEAD = ${AHEAD}u; // steps along k that are prefetched: 1 or 2
const THREADS = 256u;
const SLICE_THREADS = ROW_QUADS * COLUMN_QUADS;
const SLICES = THREADS / SLICE_THREADS;
const BLOCKS = ${BLOCKS}u; // 1 or 2: an invocation has so many blocks of 4 x 4 in both directions
const TILE_ROWS = ROW_QUADS * 4u * BLOCKS;
const TILE_COLUMNS = COLUMN_QUADS * 4u * BLOCKS;
const TILE_QUADS = ROW_QUADS * 4u * COLUMN_QUADS; // of one block of each invocation

// Invocations that run together read few lines of memory, and whole ones. If both operands are k first,
// up to eight slices lie side by side, and 2 rows of blocks; else the columns of a row of blocks.
const NEAR_SLICES = min(SLICES, 8u);
const NEAR_BLOCKS = 32u / NEAR_SLICES;
const NEAR_COLUMNS = NEAR_BLOCKS / 2u;
const GROUPS_ACROSS = max(COLUMN_QUADS / NEAR_COLUMNS, 1u);
const GROUPS = SLICE_THREADS / NEAR_BLOCKS;

var<workgroup> slice_sums: array<Quad, SLICES * TILE_QUADS>;

struct Member {
    slice: u32,
    row_quad: u32,
    column_quad: u32,
}

fn member_of(thread: u32) -> Member {
    if (!B_K_FIRST) {
        let block = thread % SLICE_THREADS;
        return Member(thread / SLICE_THREADS, block / COLUMN_QUADS, block % COLUMN_QUADS);
    }
    let near = thread / NEAR_SLICES % NEAR_BLOCKS;
    let group = thread / 32u % GROUPS;
    return Member(
        thread / 32u / GROUPS * NEAR_SLICES + thread % NEAR_SLICES,
        group / GROUPS_ACROSS * 2u + near % 2u,
        group % GROUPS_ACROSS * NEAR_COLUMNS + near / 2u,
    );
}

// The place of a slice's quad: slices that store at once use different memory banks.
fn sums_at(slice: u32, quad: u32) -> u32 {
    return slice * TILE_QUADS + (quad ^ (slice % 8u));
}

// Four k of four rows and of four columns.
struct Fetched {
    a: Block,
    b: Block,
}

// a . b + sum as four fused steps.
fn fma_dot(sum: Number, a: Quad, b: Quad) -> Number {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

fn fma_dots(sums: Quad, a: Quad, b: Block) -> Quad {
    return Quad(
        fma_dot(sums.x, a, b.k0),
        fma_dot(sums.y, a, b.k1),
        fma_dot(sums.z, a, b.k2),
        fma_dot(sums.w, a, b.k3),
    );
}

fn fma_row(sums: Quad, a: Quad, b: Block) -> Quad {
    return fma(Quad(a.w), b.k3, fma(Quad(a.z), b.k2, fma(Quad(a.y), b.k1, fma(Quad(a.x), b.k0, sums))));
}

// The beginnings of the four rows and the four columns of an invocation. Those past the end of the
// matrix read the last one; their results are not written.
struct Places {
    rows: vec4<u32>,
    columns: vec4<u32>,
}

fn fetch(places: Places, k: u32) -> Fetched {
    let rows = places.rows + k;
    let columns = places.columns + select(k * params.gemm.n, k, B_K_FIRST);
    return Fetched(
        Block(a_quad(rows.x), a_quad(rows.y), a_quad(rows.z), a_quad(rows.w)),
        b_block(columns),
    );
}

fn add(sums: ptr<function, Block>, fetched: Fetched) {
    let a = fetched.a;
    let b = fetched.b;
    if (B_K_FIRST) {
        (*sums).k0 = fma_dots((*sums).k0, a.k0, b);
        (*sums).k1 = fma_dots((*sums).k1, a.k1, b);
        (*sums).k2 = fma_dots((*sums).k2, a.k2, b);
        (*sums).k3 = fma_dots((*sums).k3, a.k3, b);
    } else {
        (*sums).k0 = fma_row((*sums).k0, a.k0, b);
        (*sums).k1 = fma_row((*sums).k1, a.k1, b);
        (*sums).k2 = fma_row((*sums).k2, a.k2, b);
        (*sums).k3 = fma_row((*sums).k3, a.k3, b);
    }
}

// `a_at` and `b_at` are where the matrices begin, `columns` how many B has.
fn places_of(row: u32, column: u32, a_at: u32, b_at: u32, columns: u32) -> Places {
    let four = vec4<u32>(0u, 1u, 2u, 3u);
    let rows = a_at + min(row + four, vec4<u32>(params.gemm.m - 1u)) * params.gemm.k;
    if (B_K_FIRST) {
        return Places(rows, b_at + min(column + four, vec4<u32>(columns - 1u)) * params.gemm.k);
    }
    return Places(rows, b_at + min(column, (columns - 1u) / 4u * 4u) + four * columns);
}

// The slices' sums of one block of each invocation are added up; `first` is their first row and column.
fn reduce_slices(part: Part, thread: u32, member: Member, sums: Block, first: vec2<u32>, columns: u32) {
    let at = member.row_quad * 4u * COLUMN_QUADS + member.column_quad;
    slice_sums[sums_at(member.slice, at)] = sums.k0;
    slice_sums[sums_at(member.slice, at + COLUMN_QUADS)] = sums.k1;
    slice_sums[sums_at(member.slice, at + 2u * COLUMN_QUADS)] = sums.k2;
    slice_sums[sums_at(member.slice, at + 3u * COLUMN_QUADS)] = sums.k3;
    workgroupBarrier();
    for (var i = thread; i < TILE_QUADS; i += THREADS) {
        var sum = slice_sums[sums_at(0u, i)];
        for (var other = 1u; other < SLICES; other++) {
            sum += slice_sums[sums_at(other, i)];
        }
        let row = first.x + i / COLUMN_QUADS;
        let column = first.y + i % COLUMN_QUADS * 4u;
        if (row < params.gemm.m && column < columns) {
            finish(part, row, column, sum);
        }
    }
}

fn multiply_small(part: Part, thread: u32, a_at: u32, b_at: u32, columns: u32) {
    let member = member_of(thread);
    let row = part.row + member.row_quad * 4u;
    let column = part.column + member.column_quad * 4u;
    let near = places_of(row, column, a_at, b_at, columns);
    let length = params.gemm.k;
    let step = SLICES * 4u;
    let last = length - 4u; // what is fetched beyond the end is not looked at
    var k = member.slice * 4u;
    var sums: Block;
    if (BLOCKS == 1u) {
        var next = fetch(near, min(k, last));
        if (AHEAD == 1u) {
            for (; k < length; k += step) {
                let now = next;
                next = fetch(near, min(k + step, last));
                add(&sums, now);
            }
        } else {
            var second = fetch(near, min(k + step, last));
            for (; k < length; k += 2u * step) {
                let now = next;
                let then = second;
                next = fetch(near, min(k + 2u * step, last));
                second = fetch(near, min(k + 3u * step, last));
                add(&sums, now);
                if (k + step < length) {
                    add(&sums, then);
                }
            }
        }
        reduce_slices(part, thread, member, sums, vec2<u32>(part.row, part.column), columns);
        return;
    }
    const away = vec2<u32>(ROW_QUADS, COLUMN_QUADS) * 4u;
    let far = places_of(row + away.x, column + away.y, a_at, b_at, columns);
    var right: Block;
    var below: Block;
    var both: Block;
    for (; k < length; k += step) {
        let one = fetch(near, k);
        let other = fetch(far, k);
        add(&sums, one);
        add(&right, Fetched(one.a, other.b));
        add(&below, Fetched(other.a, one.b));
        add(&both, other);
    }
    let first = vec2<u32>(part.row, part.column);
    reduce_slices(part, thread, member, sums, first, columns);
    workgroupBarrier();
    reduce_slices(part, thread, member, right, first + vec2<u32>(0u, away.y), columns);
    workgroupBarrier();
    reduce_slices(part, thread, member, below, first + vec2<u32>(away.x, 0u), columns);
    workgroupBarrier();
    reduce_slices(part, thread, member, both, first + away, columns);
}
