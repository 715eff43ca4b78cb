"""Params of dispatches, by name."""

from __future__ import annotations

import re
import struct

import pytest

from webpte.engine.plan.shaders import ShaderLibrary, kernel_files, shader_folder
from webpte.inspection.report.uniforms import read_params

SHADER = """
const MAX = 3u;
alias Vec = vec4<f32>;
struct Inner {
    rows: u32,
    scale: f32, // with a comment: u32,
}
struct Params {
    size: vec3<i32>,
    batch: u32,
    inner: Inner,
    pair: vec2<u32>,
    corner: Vec,
    axes: array<vec4<i32>, MAX>,
}
"""


def test_vectors_arrays_and_structs_are_where_wgsl_has_them() -> None:
    data = struct.pack(
        "<3iI If 2I 4f 4i 4i", -1, 2, 3, 4, 5, 0.5, 6, 7, 1, 2, 3, 4, *range(4), *range(4, 8)
    )
    assert read_params(SHADER, data) == {
        "size": [-1, 2, 3],
        "batch": 4,
        "inner": {"rows": 5, "scale": 0.5},
        "pair": [6, 7],
        "corner": [1.0, 2.0, 3.0, 4.0],
        "axes": [[0, 1, 2, 3], [4, 5, 6, 7]],  # the third was left out
    }


@pytest.mark.parametrize("kind", ["mat4x4<f32>", "array<u32, UNKNOWN>"])
def test_what_is_not_known_is_shown_as_words(kind: str) -> None:
    shader = "struct Params {\n    a: u32,\n    b: " + kind + ",\n}\n"
    assert read_params(shader, struct.pack("<2I", 7, 8)) == {"as words": [7, 8]}
    assert read_params("fn main() {}", b"\1\2") == {"as words": [513]}


def test_every_shader_has_params_that_can_be_read() -> None:
    """All types are f32: only the structs matter."""
    unread, library = [], ShaderLibrary()
    for kernel, file in kernel_files(shader_folder()).items():
        text = re.sub(r"\$\{\w+\}", "f32", library._read(file, False))
        if "as words" in read_params(text, bytes(4096)):
            unread.append(kernel)
    assert not unread
