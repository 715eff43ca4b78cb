// A GEMM with few rows: a workgroup reads 4 * LANES columns of B once. SLICES of invocations split k,
// and their sums are added up. Each invocation has four columns.
//
// Goes with lib/gemm/gemm.wgsl.

const ROWS = ${ROWS}u;
const LANES = ${LANES}u;
const THREADS = ${THREADS}u;
const SLICES = THREADS / LANES; // a power of two

alias Sums = array<Quad, ROWS>;

var<workgroup> slice_sums: array<Quad, THREADS * ROWS>;

fn lane_of(thread: u32) -> u32 { return thread % LANES; }
fn slice_of(thread: u32) -> u32 { return thread / LANES; }

fn column_of(part: Part, thread: u32) -> u32 { return part.column + lane_of(thread) * 4u; }
