"""Subgroup matrices emulated in plain WGSL, so that their kernels run on GPUs without them.

Only two files of wgsl/lib use f16 and the types of subgroup matrices; a copy of the folder replaces
them. A quad of f16 is a pair of words, two f16 to compute with are floats rounded as such, a
subgroup is 32 neighbouring invocations, a matrix to be multiplied is its block of shared memory
(nothing is stored there before it is used; longer-lived values are copied), and a matrix of sums is
eight numbers of each invocation.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from webpte.engine.gpu.device_info import FEATURES, MATRIX_SUBGROUP, DeviceInfo
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.plan import shaders

MATRICES = """
alias F16Quad = vec2<u32>;

// By hand, for numbers below 65520: not every driver compiles the functions that WGSL has for it.
fn to_f16(values: vec4<f32>) -> F16Quad {
    let bits = bitcast<vec4<u32>>(values);
    let size = bits & vec4<u32>(0x7fffffffu);
    let even = size + vec4<u32>(0xfffu) + ((size >> vec4<u32>(13u)) & vec4<u32>(1u));
    let tiny = vec4<u32>(round(abs(values) * 16777216.0)); // multiples of 2^-24
    let large = (even >> vec4<u32>(13u)) - vec4<u32>(112u << 10u);
    let found = select(large, tiny, size < vec4<u32>(113u << 23u)) & vec4<u32>(0x7fffu);
    let codes = found | ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
    return codes.xz | (codes.yw << vec2<u32>(16u));
}

fn to_floats(quad: F16Quad) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(quad.x), unpack2x16float(quad.y));
}

alias F16Pair = vec2<f32>;

// Below 2^-24 nothing is left; everything else here is below 65520.
fn rounded_f16_pair(values: vec2<f32>) -> F16Pair { return to_floats(to_f16(values.xyxy)).xy; }
fn f16_pair_of(bits: u32) -> F16Pair { return to_floats(vec2<u32>(bits)).xy; }
fn f16_pair_bits(values: F16Pair) -> u32 { return to_f16(values.xyxy).x; }
fn f16_splat(value: f32) -> F16Pair { return rounded_f16_pair(vec2<f32>(value)); }
fn f16_subtract(a: F16Pair, b: f32) -> F16Pair { return rounded_f16_pair(a - vec2<f32>(b)); }
fn f16_multiply(a: F16Pair, b: F16Pair) -> F16Pair { return rounded_f16_pair(a * b); }
fn f16_fma(a: F16Pair, b: F16Pair, c: F16Pair) -> F16Pair { return rounded_f16_pair(a * b + c); }
fn f16_negate(a: F16Pair) -> F16Pair { return -a; }

struct Place { @builtin(local_invocation_index) thread: u32 }

var<private> own_lane: u32;
// Loops of a length that no driver knows stay loops, which it compiles faster.
var<workgroup> two: u32;

fn lane_of(place: Place) -> u32 { return place.thread % 32u; }
fn subgroup_of(place: Place) -> u32 {
    own_lane = lane_of(place);
    if (place.thread == 0u) {
        two = 2u;
    }
    return place.thread / 32u;
}
"""

MATRIX_MEMORY = """
struct FragmentA { pair: u32, first: u32 }
struct FragmentB { pair: u32, first: u32 }
struct Accumulator { low: vec4<f32>, high: vec4<f32> } // of four rows, and of four others

fn load_first_a(pair: u32) -> FragmentA { return FragmentA(pair, 0u); }
fn load_second_a(pair: u32) -> FragmentA { return FragmentA(pair, BLOCK); }
fn load_first_b(pair: u32) -> FragmentB { return FragmentB(pair, 0u); }
fn load_second_b(pair: u32) -> FragmentB { return FragmentB(pair, BLOCK); }

fn unit_dot(a: vec4<u32>, b: vec4<u32>) -> f32 {
    return dot(to_floats(a.xy), to_floats(b.xy)) + dot(to_floats(a.zw), to_floats(b.zw));
}

// A lane has a column of every second row.
fn own_row(i: u32) -> u32 { return own_lane / 16u + 2u * i; }

fn mma(sums: Accumulator, left: FragmentA, right: FragmentB) -> Accumulator {
    var found = sums;
    let b = right.first + own_lane % 16u * LINE;
    for (var n = 0u; n < 4u * two; n++) {
        let i = n / 2u;
        let unit = n % 2u;
        let of_b = pairs[right.pair][b + unit];
        let a = left.first + unit;
        found.low[i] += unit_dot(pairs[left.pair][a + own_row(i) * LINE], of_b);
        found.high[i] += unit_dot(pairs[left.pair][a + own_row(i + 4u) * LINE], of_b);
    }
    return found;
}

struct RegisterA { units: array<vec4<u32>, 16> }

fn to_registers(left: FragmentA) -> RegisterA {
    var found: RegisterA;
    for (var i = 0u; i < 16u; i++) {
        found.units[i] = pairs[left.pair][left.first + own_row(i / 2u) * LINE + i % 2u];
    }
    return found;
}

fn mma_registers(sums: Accumulator, left: RegisterA, right: FragmentB) -> Accumulator {
    var found = sums;
    let b = right.first + own_lane % 16u * LINE;
    for (var i = 0u; i < 4u; i++) {
        for (var unit = 0u; unit < 2u; unit++) {
            let of_b = pairs[right.pair][b + unit];
            found.low[i] += unit_dot(left.units[2u * i + unit], of_b);
            found.high[i] += unit_dot(left.units[2u * i + 8u + unit], of_b);
        }
    }
    return found;
}

fn store_sums(sums: Accumulator, pair: u32) {
    let at = own_lane % 16u;
    for (var i = 0u; i < 2u * two; i++) {
        pairs[pair][own_row(i) * SUMS_LINE + at / 4u][at % 4u] = bitcast<u32>(sums.low[i]);
        pairs[pair][own_row(i + 4u) * SUMS_LINE + at / 4u][at % 4u] = bitcast<u32>(sums.high[i]);
    }
}
"""

# In place of WGSL's matrices in matrices_parts.wgsl, which stays as it is otherwise. A matrix
# of A has a copy of the units that the lane multiplies, as it may outlive the shared memory.
PART_SIZES = """
const M = ${MATRIX_M}u;
const N = ${MATRIX_N}u;
const UNITS_ALONG = ${MATRIX_K}u / 8u;
const OWN = M * N / 32u; // numbers of a lane
"""
PARTS = """
struct LeftPart { units: array<vec4<u32>, OWN * UNITS_ALONG> }
struct RightPart { pair: u32, first: u32 }
struct SumPart { sums: array<f32, OWN> }

fn unit_dot(a: vec4<u32>, b: vec4<u32>) -> f32 {
    return dot(to_floats(a.xy), to_floats(b.xy)) + dot(to_floats(a.zw), to_floats(b.zw));
}

fn part_row(i: u32) -> u32 { return (i * 32u + own_lane) / N; }
fn part_column() -> u32 { return own_lane % N; }

fn load_left(pair: u32, first: u32) -> LeftPart {
    var found: LeftPart;
    for (var i = 0u; i < OWN * UNITS_ALONG; i++) {
        found.units[i] = pairs[pair][first + part_row(i / UNITS_ALONG) * LINE + i % UNITS_ALONG];
    }
    return found;
}

fn load_right(pair: u32, first: u32) -> RightPart { return RightPart(pair, first); }

fn multiply_add(left: LeftPart, right: RightPart, sums: SumPart) -> SumPart {
    var found = sums;
    for (var i = 0u; i < OWN; i++) {
        for (var unit = 0u; unit < UNITS_ALONG; unit++) {
            let of_b = pairs[right.pair][right.first + part_column() * LINE + unit];
            found.sums[i] += unit_dot(left.units[i * UNITS_ALONG + unit], of_b);
        }
    }
    return found;
}

fn store_part(pair: u32, first: u32, sums: SumPart) {
    for (var i = 0u; i < OWN; i++) {
        let place = first + part_row(i) * SUMS_LINE + part_column() / 4u;
        pairs[pair][place][part_column() % 4u] = bitcast<u32>(sums.sums[i]);
    }
}
"""
BUILTINS = (
    (
        r"subgroupMatrixLoad<LeftPart, row_major>\(&pairs\[pair\], (.+), LINE\)",
        r"load_left(pair, \1)",
    ),
    (
        r"subgroupMatrixLoad<RightPart, col_major>\(&pairs\[pair\], (.+), LINE\)",
        r"load_right(pair, \1)",
    ),
    (
        r"subgroupMatrixStore<row_major>\(&pairs\[pair\], (.+), (\S+), SUMS_LINE\)",
        r"store_part(pair, \1, \2)",
    ),
    (r"subgroupMatrixMultiplyAccumulate\(", "multiply_add("),
    (r"alias (LeftPart|RightPart|SumPart) = subgroup_matrix_.*\n", ""),
)


def plain_parts(code: str) -> str:
    """Return matrices_parts.wgsl with its matrices emulated."""
    for pattern, plain in BUILTINS:
        code, count = re.subn(pattern, plain, code)
        assert count, f"{pattern} is not in matrices_parts.wgsl"
    return code + PART_SIZES + PARTS


@contextmanager
def plain_matrices() -> Iterator[None]:
    """Context in which kernels are read from a folder with emulated subgroup matrices."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "wgsl"
        shutil.copytree(shaders.shader_folder(), folder)
        (folder / "lib/matrix/subgroup_matrix.wgsl").write_text(MATRICES, encoding="utf-8")
        (folder / "lib/matrix/matrices_whole.wgsl").write_text(MATRIX_MEMORY, encoding="utf-8")
        parts = folder / "lib/matrix/matrices_parts.wgsl"
        parts.write_text(plain_parts(parts.read_text(encoding="utf-8")), encoding="utf-8")
        with patch.object(shaders, "shader_folder", lambda: folder):
            yield


WHOLE = "f16 f32 16x16x16"


def with_matrices(info: DeviceInfo, shape: str = WHOLE) -> DeviceInfo:
    """Return a GPU that has subgroup matrices and prefers them."""
    sizes = {"subgroupMinSize": MATRIX_SUBGROUP, "subgroupMaxSize": MATRIX_SUBGROUP}
    return replace(
        info,
        software=False,
        features=tuple(dict.fromkeys((*info.features, *FEATURES))),
        limits={**info.limits, **sizes},
        matrix_shapes=(shape,),
        prefers_subgroup_matrices=True,
    )


@cache
def matrix_device(shape: str = WHOLE) -> NativeDevice:
    """Return the native device that has subgroup matrices, by its own word, and prefers them."""
    made = asyncio.run(NativeDevice.create())
    made.info = with_matrices(made.info, shape)
    return made
