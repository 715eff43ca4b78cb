"""The NumPy references of the reductions against loops, and what their lowerings promise."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from support.cases.cases import Arg, write_arg
from support.cases.reduce.reduce_cases import AMAX, ARGMAX, ARGMIN, MEAN, SPECIAL, SUM
from support.graphs.graphs import build_graph, make_planner, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.core.row_reduction import (
    RowThreads,
    contiguous_layout,
    power_of_two,
    strided_layout,
)
from webpte.engine.ops.core.target import GPU
from webpte.engine.rewrite.passes import store_f16
from webpte.errors import WebpteError

# As PyTorch 2.13 gives them for SPECIAL.
TORCH = {
    (ARGMAX, 1): [1, 0, 0, 0, 0, 0, 3],
    (ARGMIN, 1): [1, 3, 0, 0, 2, 2, 0],
    (ARGMAX, 0): [1, 0, 1, 0],
    (ARGMIN, 0): [2, 0, 2, 0],
}


def call(op: str, x: np.ndarray, out: tuple[int, ...], dtype: str, *args: Arg) -> GraphWriter:
    g = GraphWriter()
    source, result = g.tensor(x.shape, str(x.dtype)), g.tensor(out, dtype)
    written = [write_arg(g, arg) for arg in args]
    g.op(op, source, *written, result)
    g.inputs(source)
    g.outputs(result)
    return g


@pytest.mark.parametrize(("op", "dim"), TORCH)
def test_nan_and_ties_as_torch(op: str, dim: int) -> None:
    expected = TORCH[op, dim]
    (result,) = wait(run_once(call(op, SPECIAL, (len(expected),), "int32", dim, False), SPECIAL))
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("op", "shape", "out", "dtype", "args", "message"),
    [
        (SUM, (2, 3), (2,), "float32", ([2], False, None), "dim 2 is outside"),
        (SUM, (2, 3), (2,), "float32", ([-3], False, None), "dim -3 is outside"),
        (SUM, (2, 3), (2,), "float32", ([1, -1], False, None), r"dims \[1, -1\] name a dim twice"),
        (MEAN, (2, 3), (2,), "int32", ([1], False, None), "the result is a float, not int32"),
        (AMAX, (2, 0), (2,), "float32", ([1], False), r"\[2, 0\] has no elements along dims \[1\]"),
        (AMAX, (2, 3), (2, 1), "float32", ([1], False), "has rank 2, not 1"),
        (ARGMAX, (2, 0), (2,), "int32", (1, False), "no elements to choose from along dim 1"),
        (ARGMAX, (0,), (), "int32", (None, False), "no elements to choose from along dim None"),
        (ARGMAX, (2, 3), (2,), "float32", (1, False), "indices are int32 or int64, not float32"),
        (ARGMAX, (2, 3), (2,), "int32", (5, False), "dim 5 is outside"),
    ],
)
def test_wrong_arguments(
    op: str,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    dtype: str,
    args: tuple[Arg, ...],
    message: str,
) -> None:
    x = np.zeros(shape, np.float32)
    with pytest.raises(WebpteError, match=rf"op 0 \({op}\): .*{message}"):
        wait(run_once(call(op, x, out, dtype, *args), x))


def test_integers_are_not_rounded_to_halves_first() -> None:
    x = np.array([[70000, 70000, 1, 2, 3]], np.int32)
    (result,) = wait(run_once(call(MEAN, x, (1,), "float16", [1], False, None), x))
    assert result.tolist() == [28000]  # as PyTorch 2.13 gives it


def lowered(op: str, shape: tuple[int, ...], out: tuple[int, ...], *args: Arg) -> list[Dispatch]:
    dtype = "int32" if op == ARGMAX else "float32"
    graph = build_graph(call(op, np.zeros(shape, np.float32), out, dtype, *args))
    planner, _ = make_planner(graph)
    planner.lower_all()
    return list(planner.dispatches())


def override(dispatch: Dispatch, name: str) -> float:
    return dict(dispatch.overrides)[name]


def test_a_long_row_is_cut_into_parts() -> None:
    first, second = lowered(ARGMAX, (1, 128256), (1,), -1, False)
    (between,) = [b for b in first.bindings if isinstance(b, Scratch)]
    assert between in second.bindings
    rows, _, _, parts, part = struct.unpack("<5I", first.params)
    assert (rows, first.grid) == (1, (parts, 1, 1))
    assert 32 <= parts <= 512
    assert parts * part >= 128256 > (parts - 1) * part
    assert second.grid == (1, 1, 1)
    assert len(lowered(MEAN, (1000, 1000), (), [0, 1], False, None)) == 2


def test_parts_of_sums_are_never_halves() -> None:
    x = np.zeros((1, 40000), np.float16)
    planner, _ = make_planner(store_f16(build_graph(call(SUM, x, (1,), "float16", [1], False))))
    planner.lower_all()
    parts, total = (dict(dispatch.types) for dispatch in planner.dispatches())
    assert (parts["STORED"], parts["ACC"], parts["OUT"]) == ("quad_f16", "f32", "f32")
    assert (total["STORED"], total["ACC"], total["OUT"]) == ("word_f32", "f32", "f16")


@pytest.mark.parametrize("shape", [(1, 4096), (1000, 4096), (200, 128256)])
def test_other_rows_are_not(shape: tuple[int, int]) -> None:
    (only,) = lowered(SUM, shape, shape[:1], [1], False, None)
    assert override(only, "LANES") == 256
    assert only.grid == (shape[0], 1, 1)


def test_short_rows_share_a_workgroup() -> None:
    (tiny,) = lowered(SUM, (4096, 3), (4096,), [1], False, None)
    assert (override(tiny, "LANES"), tiny.grid) == (4, (64, 1, 1))
    (quads,) = lowered(SUM, (4096, 16), (4096,), [1], False, None)
    assert (override(quads, "LANES"), quads.grid) == (4, (64, 1, 1))


def test_neighbouring_threads_read_neighbouring_elements() -> None:
    (columns,) = lowered(SUM, (64, 100, 4096), (64, 4096), [1], False, None)
    assert override(columns, "ROWS_FASTEST")
    assert 256 / override(columns, "LANES") >= 32
    (ends,) = lowered(SUM, (7, 5, 64), (5,), [0, 2], False, None)
    assert not override(ends, "ROWS_FASTEST")


def test_many_rows_fold_the_grid() -> None:
    assert RowThreads(256).grid(65535) == (65535, 1, 1)
    x, y, z = RowThreads(256).grid(70001)
    assert x * y >= 70001
    assert (x <= 65535, y <= 65535, z) == (True, True, 1)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 255, 256, 257])
def test_powers_of_two(number: int) -> None:
    power = power_of_two(number)
    assert power.bit_count() == 1
    assert power >= number
    assert power // 2 < max(number, 1)


def test_layouts_are_powers_of_two_of_a_workgroup() -> None:
    for length in (1, 3, 100, 256, 257, 10**6):
        for rows in (1, 5, 1000, 10**6):
            for layout in (contiguous_layout(length, GPU), strided_layout(rows, length, 7, GPU)):
                assert 256 % layout.lanes == 0
                groups = dict(layout.overrides)["GROUPS"]
                assert groups**2 in (layout.lanes, 2 * layout.lanes)
                assert 1 <= layout.parts(rows, length) <= 512
