// Rows of a table of small numbers: output = (number - zero point) * scale of its group, a quad of
// the output per invocation. A negative index counts from the end; one out of range sets the index
// flag. A table in several buffers takes a dispatch for each, which writes the elements of its rows.

// use lib/grid.wgsl
// use lib/quads.wgsl
// use lib/index_flag.wgsl

override BITS: u32; // of a number: 2, 4 or 8
override HIGH_FIRST: bool; // whether the first number of a byte is in its highest bits
override OFFSET: u32; // subtracted from each number
override SIGNED: bool; // of bytes
override ZERO_POINTS: bool; // whether there are any
override IN_PARTS: bool = false; // whether the source has only some rows of the table
override WHOLE: bool; // a quad is whole bytes of one word, one row and one group

alias Stored = ${FLOAT};

struct Params {
    quads: u32,
    elements: u32,
    width: u32, // elements of a row of the output
    row_bytes: u32, // of a row of the table
    rows: i32,
    group_size: u32,
    row_groups: u32, // scales of a row; 0 where one scale is for all
    flag: u32,
    first_row: i32, // of this part of the table
    part_rows: i32,
    is_added: u32, // whether other parts have been written before
}

@group(0) @binding(0) var<storage, read> weight: array<u32>;
@group(0) @binding(1) var<storage, read> scales: array<Stored>;
@group(0) @binding(2) var<storage, read> zero_points: array<quad_${ZERO}>;
@group(0) @binding(3) var<storage, read> indices: array<i32>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<Stored>>;
@group(0) @binding(5) var<storage, read_write> index_flag: array<atomic<u32>>;
@group(0) @binding(6) var<uniform> params: Params;

// -1 for a row that does not exist, -2 for one in another part.
fn row_of(element: u32) -> i32 {
    let rows = vec4<i32>(params.rows);
    let row = from_start(vec4<i32>(indices[element / params.width]), rows);
    if (!is_inside(row, rows)) {
        return -1;
    }
    if (!IN_PARTS) {
        return row.x;
    }
    let inside = row.x >= params.first_row && row.x < params.first_row + params.part_rows;
    return select(-2, row.x - params.first_row, inside);
}

// Whether the element belongs to another part, which has been written already.
fn is_kept(row: i32) -> bool {
    return IN_PARTS && row == -2 && params.is_added != 0u;
}

fn dequantized(bits: vec4<u32>, row: u32, column: u32) -> vec4<f32> {
    let group = row * params.row_groups + select(column / params.group_size, 0u, params.row_groups == 0u);
    let number = bits & vec4<u32>((1u << BITS) - 1u);
    // A signed byte with its highest bit turned over is 128 too large.
    var values = select(vec4<f32>(number) - f32(OFFSET), vec4<f32>(number ^ vec4<u32>(0x80u)) - 128.0, SIGNED);
    if (ZERO_POINTS) {
        values -= load_${ZERO}_as_f32(zero_points[group / 4u])[group % 4u];
    }
    return values * f32(scales[group]);
}

fn place_of(row: u32, column: u32) -> u32 {
    return row * params.row_bytes + column * BITS / 8u;
}

fn word_at(place: u32) -> u32 {
    return weight[place / 4u] >> (8u * (place % 4u));
}

fn whole_quad(element: u32, row: i32) -> vec4<f32> {
    if (row < 0) {
        return vec4<f32>();
    }
    let column = element % params.width;
    let lowest_first = vec4<u32>(0u, 1u, 2u, 3u) * BITS;
    let shifts = select(lowest_first, vec4<u32>(4u, 0u, 12u, 8u), HIGH_FIRST);
    return dequantized(vec4<u32>(word_at(place_of(u32(row), column))) >> shifts, u32(row), column);
}

fn single(element: u32, row: i32) -> f32 {
    if (row < 0) {
        return 0.0;
    }
    let column = element % params.width;
    let lowest_first = column * BITS % 8u;
    let shift = select(lowest_first, 8u - BITS - lowest_first, HIGH_FIRST);
    return dequantized(vec4<u32>(word_at(place_of(u32(row), column)) >> shift), u32(row), column).x;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
    let quad = flat_index(invocation, workgroups);
    if (quad >= params.quads) {
        return;
    }
    if (WHOLE) {
        let row = row_of(quad * 4u);
        if (!is_kept(row)) {
            output[quad] = vec4<Stored>(whole_quad(quad * 4u, row));
        }
        return;
    }
    var values = vec4<Stored>();
    for (var lane = 0u; lane < 4u; lane++) {
        let element = min(quad * 4u + lane, params.elements - 1u);
        let row = row_of(element);
        if (is_kept(row)) {
            values[lane] = output[quad][lane];
        } else {
            values[lane] = Stored(single(element, row));
        }
    }
    output[quad] = values;
}
