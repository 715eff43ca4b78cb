// The copies of strided.wgsl whose innermost axis is far apart in the input, while another one is
// contiguous there: 32 x 32 tiles go through workgroup memory, so that neighbouring invocations
// both read and write neighbouring elements. UNIT is what moves one: u32, or f16.
//
// A column counts along the innermost axis of the output, a row along the innermost of the input.

// use lib/slice_start.wgsl

alias Unit = ${UNIT};

const MAX_AXES = 16u;
const TILE = 32u;
const TILE_ROWS = 8u; // of a tile at once; a workgroup has TILE x TILE_ROWS invocations

struct Params {
    tiles: u32, // in all
    tile_columns: u32,
    tile_rows: u32,
    rank: u32, // of what is neither row nor column
    columns: u32,
    column_stride: i32, // of the input; 1 in the output
    rows: u32,
    row_stride: i32, // of the input: 1 or -1
    row_out_stride: u32,
    base: i32,
    start_size: i32, // see strided.wgsl
    start_stride: i32,
    axes: array<vec4<i32>, MAX_AXES>, // (size, stride of the input, stride of the output)
}

@group(0) @binding(0) var<storage, read> input: array<Unit>;
@group(0) @binding(1) var<storage, read_write> output: array<Unit>;
@group(0) @binding(2) var<uniform> start: vec4<i32>;
@group(0) @binding(3) var<uniform> params: Params;

// One word more per line, or a column of the tile would lie in one memory bank.
var<workgroup> tile: array<array<Unit, TILE + 1u>, TILE>;

@compute @workgroup_size(TILE, TILE_ROWS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if (index >= params.tiles) {
        return;
    }
    let first_column = index % params.tile_columns * TILE;
    let first_row = index / params.tile_columns % params.tile_rows * TILE;

    var rest = index / (params.tile_columns * params.tile_rows);
    var at = params.base + first_index(start.x, params.start_size) * params.start_stride;
    var out_at = 0u;
    for (var i = params.rank; i > 0u; i--) {
        let axis = params.axes[i - 1u];
        let coordinate = rest % u32(axis.x);
        at += i32(coordinate) * axis.y;
        out_at += coordinate * u32(axis.z);
        rest /= u32(axis.x);
    }

    for (var line = local.y; line < TILE; line += TILE_ROWS) {
        let row = first_row + local.x;
        let column = first_column + line;
        if (row < params.rows && column < params.columns) {
            tile[line][local.x] = input[at + i32(row) * params.row_stride + i32(column) * params.column_stride];
        }
    }
    workgroupBarrier();
    for (var line = local.y; line < TILE; line += TILE_ROWS) {
        let row = first_row + line;
        let column = first_column + local.x;
        if (row < params.rows && column < params.columns) {
            output[out_at + row * params.row_out_stride + column] = tile[local.x][line];
        }
    }
}
