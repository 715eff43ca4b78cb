"""The NumPy references of the softmax family against loops and PyTorch's own answers."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.reduce.softmax_cases import SOFTMAX
from support.graphs.graphs import build_graph, make_planner, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.records import Dispatch
from webpte.errors import WebpteError


def graph_of(shape: tuple[int, ...], dim: int, dtype: str = "float32") -> GraphWriter:
    g = GraphWriter()
    x, out = g.tensor(shape, dtype), g.tensor(shape, dtype)
    g.op(SOFTMAX, x, g.int(dim), g.bool_(False), out)
    g.inputs(x)
    g.outputs(out)
    return g


@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "message"),
    [
        ((2, 3), 2, "float32", "dim 2 is outside a tensor of rank 2"),
        ((2, 3), -3, "float32", "dim -3 is outside a tensor of rank 2"),
        ((2, 3), 1, "int32", "value 0 is int32; this op is defined for floats"),
    ],
)
def test_wrong_arguments(shape: tuple[int, ...], dim: int, dtype: str, message: str) -> None:
    with pytest.raises(WebpteError, match=rf"op 0 \({SOFTMAX}\): {message}"):
        wait(run_once(graph_of(shape, dim, dtype), np.zeros(shape, dtype)))


def lowered(shape: tuple[int, ...], dim: int) -> list[Dispatch]:
    planner, _ = make_planner(build_graph(graph_of(shape, dim)))
    planner.lower_all()
    return list(planner.dispatches())


@pytest.mark.parametrize(
    ("shape", "dim", "item", "lanes", "grid"),
    [
        ((12, 128, 128), -1, "vec4f", 32, (192, 1, 1)),
        ((4, 17, 17), -1, "f32", 32, (9, 1, 1)),
        ((2, 4096), -1, "vec4f", 256, (2, 1, 1)),
        ((1000, 3), -1, "f32", 4, (16, 1, 1)),
        ((64, 8, 4096), 1, "f32", 8, (8192, 1, 1)),
        ((70000, 1024), -1, "vec4f", 256, (265, 265, 1)),
    ],
)
def test_threads(
    shape: tuple[int, ...], dim: int, item: str, lanes: int, grid: tuple[int, int, int]
) -> None:
    (dispatch,) = lowered(shape, dim)
    assert dict(dispatch.types)["ITEM"] == item
    assert dict(dispatch.overrides)["LANES"] == lanes
    assert dispatch.grid == grid


def test_nothing_to_do() -> None:
    assert lowered((0, 4), 1) == []
    assert lowered((4, 0), 1) == []
