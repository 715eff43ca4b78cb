"""Subgroup matrices emulated in plain WGSL, so that their kernels run on GPUs without them.

Only two files of wgsl/lib use the types of subgroup matrices; a copy of the folder replaces them. A
quad of f16 is a pair of words, a subgroup is 32 neighbouring invocations, a matrix to be multiplied
is its place in shared memory (nothing is stored there before it is used), and a matrix of sums is
eight numbers of each invocation.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from webpte.gpu.device import FEATURES, MATRIX_SHAPE, MATRIX_SUBGROUP, DeviceInfo
from webpte.plan import shaders

MATRICES = """
alias F16Quad = vec2<u32>;

struct Left { band: u32, line: u32, low: bool }
struct Right { band: u32, line: u32, low: bool }
struct Sums { values: array<f32, 8> }

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
    let codes = vec4<u32>(quad.x, quad.x >> 16u, quad.y, quad.y >> 16u);
    let size = codes & vec4<u32>(0x7fffu);
    let large = bitcast<vec4<f32>>((size << vec4<u32>(13u)) + vec4<u32>(112u << 23u));
    let found = select(large, vec4<f32>(size) / 16777216.0, size < vec4<u32>(0x400u));
    return select(found, -found, (codes & vec4<u32>(0x8000u)) != vec4<u32>());
}

struct Place { @builtin(local_invocation_index) thread: u32 }

var<private> own_lane: u32;

fn lane_of(place: Place) -> u32 { return place.thread % 32u; }
fn subgroup_of(place: Place) -> u32 {
    own_lane = lane_of(place);
    return place.thread / 32u;
}
"""

LOADS = "\n".join(
    f"fn {size}_{kind.lower()}{i}(band: u32) -> {kind} "
    f"{{ return {kind}(band, {16 * i}u, {'true' if size == 'low' else 'false'}); }}"
    for kind in ("Left", "Right")
    for size in ("high", "low")
    for i in range(4)
)

MATRIX_MEMORY = """
fn left_quad(left: Left, row: u32, quad: u32) -> vec4<f32> {
    let at = (left.line + row) * LINE + quad;
    if (left.low) {
        return to_floats(a_low[left.band][at]);
    }
    return to_floats(a_high[left.band][at]);
}

fn right_quad(right: Right, column: u32, quad: u32) -> vec4<f32> {
    let at = (right.line + column) * LINE + quad;
    if (right.low) {
        return to_floats(b_low[right.band][at]);
    }
    return to_floats(b_high[right.band][at]);
}

fn plus_product(sums: Sums, left: Left, right: Right) -> Sums {
    var found = sums;
    for (var i = 0u; i < 8u; i++) {
        let at = own_lane + 32u * i;
        for (var quad = 0u; quad < 4u; quad++) {
            let b = right_quad(right, at % 16u, quad);
            found.values[i] += dot(left_quad(left, at / 16u, quad), b);
        }
    }
    return found;
}

fn store_sums(sums: Sums, subgroup: u32) {
    for (var i = 0u; i < 8u; i++) {
        let at = own_lane + 32u * i;
        patches[subgroup][at / 4u][at % 4u] = sums.values[i];
    }
}
"""


@contextmanager
def plain_matrices() -> Iterator[None]:
    """Context in which kernels are read from a folder with emulated subgroup matrices."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "wgsl"
        shutil.copytree(shaders.shader_folder(), folder)
        (folder / "lib/gemm/subgroup_matrix.wgsl").write_text(MATRICES, encoding="utf-8")
        (folder / "lib/gemm/subgroup_matrix_memory.wgsl").write_text(
            LOADS + MATRIX_MEMORY, encoding="utf-8"
        )
        with patch.object(shaders, "shader_folder", lambda: folder):
            yield


def with_matrices(info: DeviceInfo) -> DeviceInfo:
    """Return a GPU that has subgroup matrices and prefers them."""
    sizes = {"subgroupMinSize": MATRIX_SUBGROUP, "subgroupMaxSize": MATRIX_SUBGROUP}
    return replace(
        info,
        software=False,
        features=tuple(dict.fromkeys((*info.features, *FEATURES))),
        limits={**info.limits, **sizes},
        matrix_shapes=(MATRIX_SHAPE,),
        prefers_subgroup_matrices=True,
    )
