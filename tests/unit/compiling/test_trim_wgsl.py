"""Trimmed kernels have what their entry point uses, and no comments."""

from __future__ import annotations

import re

import pytest

from webpte.compiling.trim_wgsl import trim
from webpte_host.base.layout import ROOT

CODE = """\
// A kernel.
enable f16;
struct Params { count: u32, }
struct Unused { x: f32, }
const SIZE = 4u; // of a block
const OTHER = SIZE * 2u;
alias Quad = vec4<f32>;
override WIDE: bool;
override NARROW: bool; // not used

fn helper(x: Quad) -> Quad { if (x.x > 0.0) { return x; } return deep(x); }
fn deep(x: Quad) -> Quad { return -x; }
fn lonely() -> u32 { return OTHER; }

@group(0) @binding(0) var<storage, read> input: array<Quad>;
@group(0) @binding(1) var<uniform> params: Params;
var<workgroup> tile: array<f32, SIZE>;
var<private> spare: f32;

@compute @workgroup_size(SIZE)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (WIDE) { tile[0] = helper(input[id.x]).x; }
}
"""


def test_only_what_is_used_stays() -> None:
    made = trim(CODE)
    names = re.findall(
        r"\b(?:fn|struct|const|alias|override|storage, read>|uniform>|workgroup>) (\w+)", made
    )
    assert names == [
        *("Params", "SIZE", "Quad", "WIDE", "NARROW", "helper", "deep"),
        *("input", "params", "tile", "main"),
    ]
    assert "//" not in made
    assert made.startswith("enable f16;\n")
    assert "\n\n" not in made
    assert trim(made) == made


@pytest.mark.parametrize("text", ["", "fn main() {}\n"])
def test_short_texts(text: str) -> None:
    assert trim(text).strip() == text.strip()


def test_kernels_have_no_other_comments() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "wgsl").rglob("*.wgsl")]
    assert len(texts) > 100
    assert not any("/*" in text for text in texts)
