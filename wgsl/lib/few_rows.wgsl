// Few rows of x that meet wide units of quantized weights: a unit is a vec4<u32> of a column, all
// values of which share a scale. Goes with lib/activations.wgsl, lib/weights.wgsl and lib/slices.wgsl.
//
// With NORMED, x counts as its root mean square normalization with the weights `gain` (an array of
// StoredQuad; `params.eps`). Sums are found with x * gain and multiplied by 1 / rms at their end, so that
// nothing waits for the norm.

override NORMED: bool = false;
// A workgroup is one subgroup, or a part of one, and LANES is 1: no barriers, no shared memory.
override ONE_SUBGROUP: bool = false;
override SQUARES: u32 = select(1u, THREADS * ROWS, NORMED);

alias Squares = array<f32, ROWS>;

var<workgroup> slice_squares: array<f32, SQUARES>;

// Four halves of bytes, of four columns each, without a shift: each half stays where it is, below a
// one of such a worth that the half counts 0 to 15.
fn halves_of(words: vec4<u32>) -> Block {
    let first = bitcast<vec4<f32>>((words & vec4<u32>(0xfu)) | vec4<u32>(0x4b000000u)) - 8388616.0;
    let second = bitcast<vec4<f32>>((words & vec4<u32>(0xf0u)) | vec4<u32>(0x49000000u)) - 524296.0;
    let third = bitcast<vec4<f32>>((words & vec4<u32>(0xf00u)) | vec4<u32>(0x47000000u)) - 32776.0;
    let fourth = bitcast<vec4<f32>>((words & vec4<u32>(0xf000u)) | vec4<u32>(0x45000000u)) - 2056.0;
    if (FORMAT == HIGH_FIRST) {
        return Block(second, first, fourth, third);
    }
    return Block(first, second, third, fourth);
}

fn unscaled_block(words: vec4<u32>) -> Block {
    if (FORMAT == BYTES) {
        return Block(value_of(words, 0u), value_of(words, 1u), value_of(words, 2u), value_of(words, 3u));
    }
    return halves_of(words);
}

fn values_per_unit() -> u32 { return select(32u, 16u, FORMAT == BYTES); }

// What of x meets the weights.
fn met_quad(row: u32, k: u32) -> vec4<f32> {
    if (NORMED) {
        return x_quad(row, k) * vec4<f32>(gain[k / 4u]);
    }
    return x_quad(row, k);
}

// One k after the other, so that each step is a single instruction.
fn plus_products(sums: Quad, values: vec4<f32>, block: Block) -> Quad {
    var sum = fma(Quad(values.x), block.k0, sums);
    sum = fma(Quad(values.y), block.k1, sum);
    sum = fma(Quad(values.z), block.k2, sum);
    return fma(Quad(values.w), block.k3, sum);
}

fn add_block(sums: ptr<function, Sums>, row: u32, k: u32, block: Block) {
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = plus_products((*sums)[i], met_quad(row + i, k), block);
    }
}

// Adds one word of each of four columns: 8 halves or 4 bytes, from k on.
fn add_words(sums: ptr<function, Sums>, row: u32, k: u32, words: vec4<u32>) {
    add_block(sums, row, k, unscaled_block(words));
    if (FORMAT != BYTES) {
        add_block(sums, row, k + 4u, unscaled_block(words >> vec4<u32>(16u)));
    }
}

// Adds a unit of each of four columns, from k on.
fn add_units(sums: ptr<function, Sums>, row: u32, k: u32, c0: vec4<u32>, c1: vec4<u32>, c2: vec4<u32>, c3: vec4<u32>, scale: vec4<f32>) {
    let per_word = values_per_unit() / 4u;
    var found: Sums;
    add_words(&found, row, k, vec4<u32>(c0.x, c1.x, c2.x, c3.x));
    add_words(&found, row, k + per_word, vec4<u32>(c0.y, c1.y, c2.y, c3.y));
    add_words(&found, row, k + 2u * per_word, vec4<u32>(c0.z, c1.z, c2.z, c3.z));
    add_words(&found, row, k + 3u * per_word, vec4<u32>(c0.w, c1.w, c2.w, c3.w));
    for (var i = 0u; i < ROWS; i++) {
        (*sums)[i] = fma(found[i], scale, (*sums)[i]);
    }
}

// Adds the squares of `count` elements of each row, from k on.
fn add_squares(squares: ptr<function, Squares>, row: u32, k: u32, count: u32) {
    if (NORMED) {
        for (var i = 0u; i < ROWS; i++) {
            for (var at = k; at < k + count; at += 4u) {
                let values = x_quad(row + i, at);
                (*squares)[i] += dot(values, values);
            }
        }
    }
}

// The sum over a subgroup where a workgroup is one, else what is given.
fn over_subgroup(value: vec4<f32>) -> vec4<f32> {
    return ${SUBGROUP_SUM};
}

// Adds up what the slices found. The first LANES invocations then find the sums of their columns by
// `sums_of`. Called by all invocations of a workgroup, with `squares` the first time.
fn fold_slices(thread: u32, sums: Sums, squares: Squares) {
    for (var row = 0u; row < ROWS; row++) {
        slice_sums[row * THREADS + thread] = over_subgroup(sums[row]);
        if (NORMED) {
            slice_squares[row * THREADS + thread] = over_subgroup(vec4<f32>(squares[row])).x;
        }
    }
    for (var rest = select(THREADS / 2u, 0u, ONE_SUBGROUP); rest >= LANES; rest /= 2u) {
        workgroupBarrier();
        if (thread < rest) {
            for (var row = 0u; row < ROWS; row++) {
                slice_sums[row * THREADS + thread] += slice_sums[row * THREADS + thread + rest];
                if (NORMED) {
                    slice_squares[row * THREADS + thread] += slice_squares[row * THREADS + thread + rest];
                }
            }
        }
    }
}

// Four columns of a row, after `fold_slices`: 1 / rms is the same for all of them.
fn sums_of(thread: u32, row: u32) -> Quad {
    let sums = slice_sums[row * THREADS + thread];
    if (NORMED) {
        return sums * inverseSqrt(slice_squares[row * THREADS + thread] / f32(params.product.k) + params.eps);
    }
    return sums;
}
