"""The strided family: references, the kernel that a walk gets, and refused arguments."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, Sym, dispatch_of, lowered, random_bits
from support.cases.move.strided_cases import expanded, flipped, permuted
from webpte.engine.ops.core import move_units
from webpte.engine.ops.move import strided
from webpte.engine.plan.shaders import shader_folder
from webpte.errors import GraphError

PERMUTE, EXPAND = "aten.permute_copy.default", "aten.expand_copy.default"
REPEAT, FLIP = "aten.repeat.default", "aten.flip.default"
UNFOLD, SHUFFLE = "aten.unfold_copy.default", "aten.pixel_shuffle.default"


def permute(shape: tuple[int, ...], dims: list[int], dtype: str = "float32") -> LiveCase:
    return LiveCase(PERMUTE, [(random_bits(shape, dtype), dims)], permuted)


@pytest.mark.parametrize(
    ("case", "unit", "parts"),
    [
        (permute((2, 3, 4), [1, 0, 2]), "vec4<u32>", 1),
        (permute((2, 3, 5), [1, 0, 2]), "u32", 1),
        (permute((67,), [0]), "vec4<u32>", 1),  # one run: past its end the buffer is padded
        (permute((2, 3, 16), [1, 0, 2], "uint8"), "vec4<u32>", 1),
        (permute((2, 3, 4), [1, 0, 2], "bool"), "u32", 1),
        (permute((2, 3, 5), [1, 0, 2], "int8"), "u32", 4),
        (LiveCase(EXPAND, [(random_bits((1, 8)), [3, 8])], expanded), "vec4<u32>", 1),
        (LiveCase(EXPAND, [(random_bits((8, 1)), [8, 4])], expanded), "u32", 1),
        (LiveCase(FLIP, [(random_bits((3, 8)), [0])], flipped), "vec4<u32>", 1),
        (LiveCase(FLIP, [(random_bits((3, 8)), [1])], flipped), "u32", 1),
    ],
    ids=str,
)
def test_moves_as_wide_as_runs_allow(case: LiveCase, unit: str, parts: int) -> None:
    dispatch = dispatch_of(case)
    assert dispatch.kernel == "strided"
    assert dict(dispatch.types) == {"UNIT": unit}
    assert dict(dispatch.overrides) == {"PARTS": parts}


@pytest.mark.parametrize(
    ("case", "tiles"),
    [
        (permute((32, 32), [1, 0]), 1),
        (permute((33, 64), [1, 0]), 4),
        (permute((3, 33, 2, 19), [0, 3, 2, 1]), 2 * 6),
        (permute((17, 3, 37), [2, 1, 0], "int32"), 2 * 3),
    ],
    ids=str,
)
def test_transposes_go_by_tiles(case: LiveCase, tiles: int) -> None:
    dispatch = dispatch_of(case)
    assert dispatch.kernel == "strided_transpose"
    assert dispatch.grid == (tiles, 1, 1)


@pytest.mark.parametrize(
    "case",
    [permute((15, 64), [1, 0]), permute((64, 15), [1, 0]), permute((64, 64), [1, 0], "uint8")],
    ids=str,
)
def test_narrow_transposes_and_bytes_do_not(case: LiveCase) -> None:
    assert dispatch_of(case).kernel == "strided"


def test_nothing_to_move() -> None:
    assert lowered(permute((0, 3), [1, 0]))[0].dispatches() == ()


@pytest.mark.parametrize(
    ("op", "shape", "args", "message"),
    [
        (PERMUTE, (2, 3), ([0, 0],), "does not order"),
        (PERMUTE, (2, 3), ([0],), "does not order"),
        (PERMUTE, (2, 3), ([0, 2],), "dim 2 is outside"),
        ("aten.t_copy.default", (2, 3, 4), (), "rank 2 at most"),
        (EXPAND, (2, 3), ([3],), "more dims"),
        (EXPAND, (2, 3), ([4, 3],), "does not expand"),
        (EXPAND, (3,), ([-1, 3],), "does not expand"),
        (REPEAT, (2, 3), ([2],), "cannot repeat"),
        (REPEAT, (2, 3), ([2, -1],), "cannot repeat"),
        (FLIP, (2, 3), ([0, 0],), "flips a dim twice"),
        (UNFOLD, (5,), (0, 6, 1), "windows of 6"),
        (UNFOLD, (5,), (0, 2, 0), "steps of 0"),
        (SHUFFLE, (3, 2, 2), (2,), "is not"),
        (SHUFFLE, (4, 2), (2,), "is not"),
    ],
)
def test_refuses(op: str, shape: tuple[int, ...], args: tuple[Any, ...], message: str) -> None:
    case = LiveCase(op, [(random_bits(shape), *args)], lambda *_: np.zeros((1,), np.uint32))
    with pytest.raises(GraphError, match=rf"op 0 \({re.escape(op)}\): .*{message}"):
        lowered(case)


def test_keeps_the_element_type() -> None:
    case = LiveCase(PERMUTE, [(random_bits((2, 3)), [0, 1])], permuted, out="int32")
    with pytest.raises(GraphError, match="keeps the element type"):
        lowered(case)


def test_more_axes_than_the_kernel_takes_run_on_the_host() -> None:
    shape = (2,) * 9
    case = LiveCase(REPEAT, [(random_bits(shape), [2] * 9)], np.tile)
    planner, _ = lowered(case)
    assert planner.dispatches() == ()
    assert "18 axes" in str(planner.calls[0].host)


def test_a_repeat_of_eight_dims_fits() -> None:
    shape = (2,) * 8
    case = LiveCase(REPEAT, [(random_bits(shape), [2] * 8)], np.tile)
    assert dispatch_of(case).kernel == "strided"


def test_symint_sizes_lower_anew() -> None:
    case = LiveCase(EXPAND, [(random_bits((1, 5)), [Sym(3), Sym(5)], False)], expanded)
    planner, live = lowered(case)
    before = planner.dispatches()
    (rows, _) = [
        i for i, v in enumerate(planner._graph.values) if type(v).__name__ == "SymIntValue"
    ]
    live.set_symint(rows, 2)
    planner.propagate_resize()
    assert planner.dispatches() != before


@pytest.mark.parametrize(
    ("value", "file", "pattern"),
    [
        (move_units.MAX_AXES, "move/strided.wgsl", r"const MAX_AXES = (\d+)u;"),
        (move_units.MAX_AXES, "move/strided_transpose.wgsl", r"const MAX_AXES = (\d+)u;"),
        (strided.TILE, "move/strided_transpose.wgsl", r"const TILE = (\d+)u;"),
        (move_units.MAX_AXES, "move/pad.wgsl", r"const MAX_AXES = (\d+)u;"),
        (move_units.MAX_AXES, "move/indexing.wgsl", r"const MAX_AXES = (\d+)u;"),
    ],
)
def test_numbers_that_stand_in_python_and_in_wgsl_agree(
    value: int, file: str, pattern: str
) -> None:
    match = re.search(pattern, (shader_folder() / file).read_text(encoding="utf-8"))
    assert match is not None
    assert int(match[1]) == value
