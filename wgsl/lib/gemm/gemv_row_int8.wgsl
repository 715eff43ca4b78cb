// The row of a GEMV rounded to int8, with a scale and a zero point from its extremes; the products of a unit are added
// as integers. Codes of weights have 4 bits, the first of a byte in its low nibble.
//
// Every workgroup rounds the row, which then lies in shared memory: for each word of weights two words of codes, those
// of its low nibbles (even places) and those of its high ones (odd places). Neighbouring units use different banks.
// Goes with lib/gemm/gemv_q4.wgsl, lib/quads.wgsl, lib/quotient.wgsl and lib/nan.wgsl; the kernel declares `x` and
// `params.min_scale`.

// use lib/bytes.wgsl
// use lib/gemm/row_qparams.wgsl

const OCTETS = UNITS * 4u; // of the row: the eight values of a word of weights
const LOADS = (OCTETS + THREADS - 1u) / THREADS; // octets that an invocation rounds
const KEPT = min(LOADS, 8u); // of these, in registers; the others are read twice
const UNIT_VALUES = 32;
const STATS_PARTIALS = 32u;

alias Run = array<vec4<f32>, 2u * KEPT>;

var<workgroup> even_codes: array<array<u32, UNITS>, 4>;
var<workgroup> odd_codes: array<array<u32, UNITS>, 4>;
var<workgroup> stats: array<vec4<f32>, THREADS>; // sum of squares, minimum and maximum
var<workgroup> folded_stats: array<vec4<f32>, STATS_PARTIALS>;
var<private> row_qparams: vec4<f32>; // scale, 1 / scale, zero and 1 / rms

fn joined_stats(one: vec4<f32>, other: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(one.x + other.x, min(one.y, other.y), max(one.z, other.z), 0.0);
}

// A quad of x before the norm, but with its gain, and the statistics so far with it.
fn seen_quad(seen: ptr<function, vec4<f32>>, quad: u32) -> vec4<f32> {
    let values = vec4<f32>(x[quad]);
    var met = values;
    if (NORMED) {
        met *= vec4<f32>(gain[quad]);
    }
    let low = min(min(met.x, met.y), min(met.z, met.w));
    let high = max(max(met.x, met.y), max(met.z, met.w));
    *seen = joined_stats(*seen, vec4<f32>(dot(values, values), low, high, 0.0));
    return met;
}

// The scale and zero point of the row, from what each invocation has seen; by all of a workgroup.
fn find_row_qparams(thread: u32, seen: vec4<f32>) {
    stats[thread] = seen;
    workgroupBarrier();
    if (thread < STATS_PARTIALS) {
        var folded = vec4<f32>();
        for (var z = thread; z < THREADS; z += STATS_PARTIALS) {
            folded = joined_stats(folded, stats[z]);
        }
        folded_stats[thread] = folded;
    }
    workgroupBarrier();
    var all = vec4<f32>();
    for (var i = 0u; i < STATS_PARTIALS; i++) {
        all = joined_stats(all, folded_stats[i]);
    }
    row_qparams = qparams_of(all);
}

fn store_octet(octet: u32, first: vec4<f32>, second: vec4<f32>) {
    let a = vec4<u32>(vec4<i32>(codes_of(first * row_qparams.w, row_qparams)));
    let b = vec4<u32>(vec4<i32>(codes_of(second * row_qparams.w, row_qparams)));
    even_codes[octet % 4u][octet / 4u] = word_of(vec4<u32>(a.x, a.z, b.x, b.z));
    odd_codes[octet % 4u][octet / 4u] = word_of(vec4<u32>(a.y, a.w, b.y, b.w));
}

// Rounds the row, by all invocations of a workgroup.
fn round_row(thread: u32) {
    var run = Run();
    var seen = vec4<f32>();
    for (var i = 0u; i < LOADS; i++) {
        let octet = i * THREADS + thread;
        if (octet < OCTETS) {
            let first = seen_quad(&seen, 2u * octet);
            let second = seen_quad(&seen, 2u * octet + 1u);
            if (i < KEPT) {
                run[2u * i] = first;
                run[2u * i + 1u] = second;
            }
        }
    }
    find_row_qparams(thread, seen);
    for (var i = 0u; i < LOADS; i++) {
        let octet = i * THREADS + thread;
        if (octet < OCTETS) {
            if (i < KEPT) {
                store_octet(octet, run[2u * i], run[2u * i + 1u]);
            } else {
                let first = seen_quad(&seen, 2u * octet);
                store_octet(octet, first, seen_quad(&seen, 2u * octet + 1u));
            }
        }
    }
    workgroupBarrier();
}

// The sums of a unit of four columns so far: products of codes, codes of x, and codes of weights as four bytes.
struct UnitSums {
    products: vec4<i32>,
    codes: i32,
    weights: vec4<u32>,
}

fn add_words(sums: UnitSums, words: vec4<u32>, unit: u32, place: u32) -> UnitSums {
    let low = words & vec4<u32>(0x0f0f0f0fu);
    let high = (words >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    let even = even_codes[place][unit];
    let odd = odd_codes[place][unit];
    return UnitSums(
        sums.products + dots(low, even) + dots(high, odd),
        sums.codes + dot4I8Packed(even, ONES) + dot4I8Packed(odd, ONES),
        sums.weights + low + high, // a byte is at most 8 * 15
    );
}

// Adds a unit of four columns to the sums. Codes of weights are 8 too large.
fn accumulate_units(sums: Quad, units: Units, unit: u32) -> Quad {
    var found = UnitSums();
    found = add_words(found, vec4<u32>(units.c0.x, units.c1.x, units.c2.x, units.c3.x), unit, 0u);
    found = add_words(found, vec4<u32>(units.c0.y, units.c1.y, units.c2.y, units.c3.y), unit, 1u);
    found = add_words(found, vec4<u32>(units.c0.z, units.c1.z, units.c2.z, units.c3.z), unit, 2u);
    found = add_words(found, vec4<u32>(units.c0.w, units.c1.w, units.c2.w, units.c3.w), unit, 3u);
    let zero = i32(row_qparams.z);
    let of_zero = zero * (dots(found.weights, ONES) - 8 * UNIT_VALUES);
    return fma(vec4<f32>(found.products - 8 * found.codes - of_zero), units.scale, sums);
}

// Multiplies x with four columns of a matrix for each lane, by all invocations of a workgroup; `sum_of`
// returns the sums. With two MATRICES, they are the first and the second; else `matrix`, the same for all.
fn multiply_row(thread: u32, matrix: u32, stride: u32, column: u32) {
    var units = units_at(matrix, stride, column, unit_of(0u, thread));
    var others = Units();
    if (MATRICES == 2u) {
        others = units_at(1u, stride, column, unit_of(0u, thread));
    }
    round_row(thread);
    var sums = Quad();
    var other_sums = Quad();
    for (var turn = 0u; turn < TURNS; turn++) {
        let now = units;
        let others_now = others;
        if (turn + 1u < TURNS) {
            units = units_at(matrix, stride, column, unit_of(turn + 1u, thread));
            if (MATRICES == 2u) {
                others = units_at(1u, stride, column, unit_of(turn + 1u, thread));
            }
        }
        let unit = turn * SLICES + slice_of(thread);
        if (unit < UNITS) {
            sums = accumulate_units(sums, now, unit);
            if (MATRICES == 2u) {
                other_sums = accumulate_units(other_sums, others_now, unit);
            }
        }
    }
    slice_sums[thread] = sums;
    if (MATRICES == 2u) {
        slice_sums[THREADS + thread] = other_sums;
    }
    reduce_slices(thread);
}

fn reduce_row(thread: u32) {}

fn row_factor() -> f32 { return row_qparams.x; }
