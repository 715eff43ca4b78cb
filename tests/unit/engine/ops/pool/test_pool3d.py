"""3D pooling: references, refused arguments, and calls that run on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cases.conv.conv_cases import conv
from support.cases.pool.pool3d_cases import AVERAGE, maximum
from support.graphs.graphs import build_graph, make_planner, read_graph, wait
from support.write.pte_writer import GraphWriter
from webpte.errors import GraphError


def pooled(dims: tuple[int, ...], dtype: str = "float32", **given: Any) -> GraphWriter:
    lists = {"kernel": [2], "stride": [2], "padding": [0]} | given
    g = GraphWriter()
    x, out = g.tensor(dims, dtype), g.tensor((1, 2, 2, 2, 2), dtype)
    g.inputs(x)
    g.outputs(g.op(AVERAGE, x, *map(g.int_list, lists.values()), out))
    return g


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (pooled((4, 4, 4)), "takes"),
        (pooled((1, 2, 4, 4, 4), kernel=[5]), "do not fit"),
        (pooled((1, 2, 4, 4, 4), kernel=[2, 2]), "1 or 3 numbers"),
        (pooled((1, 2, 4, 4, 4), kernel=[0]), "windows of"),
        (pooled((1, 2, 4, 4, 4), padding=[-1]), "windows of"),
    ],
)
def test_refuses(graph: GraphWriter, message: str) -> None:
    planner, _ = make_planner(build_graph(graph))
    with pytest.raises(GraphError, match=message):
        planner.lower_all()


def test_integers_are_the_hosts() -> None:
    planner, _ = make_planner(build_graph(pooled((1, 2, 4, 4, 4), "int32")))
    planner.lower_all()
    assert any(step.host for step in planner.calls)


def test_transposed_convolutions_run_on_the_gpu() -> None:
    case = conv((1, 2, 3, 4, 5), (2, 3, 2, 2, 2), stride=[2], extra=[1], transposed=True)
    wait(case.run_reference())
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    assert not any(step.host for step in planner.calls)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": (6, 5, 3, 3, 3)}, "channels"),
        ({"groups": 5}, "in 5 groups"),
        ({"stride": [0]}, "windows of"),
        ({"stride": [1, 2]}, "1 or 3 numbers"),
        ({"weight": (6, 4, 3, 6, 3)}, "do not fit"),
        ({"weight": (4, 6, 1, 1, 1), "transposed": True, "padding": [4]}, "does not fit"),
        ({"weight": (4, 6, 1, 1, 1), "transposed": True, "stride": [1, 2]}, "3 spatial dims"),
    ],
)
def test_wrong_convolutions(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"x": (1, 4, 5, 5, 5), "weight": (6, 4, 3, 3, 3), "bias": False}
    case = replace(conv(**good | change), expect=lambda *args: np.zeros((1, 6, 3, 3, 3)))
    planner, _ = make_planner(read_graph(case.program()))
    with pytest.raises(GraphError, match=message):
        planner.lower_all()


def test_a_nan_is_the_maximum() -> None:
    x = np.zeros((1, 1, 2, 2, 4), np.float32)
    x[0, 0, 1, 0, 1] = np.nan
    given = maximum(x.shape, [2])
    wait(replace(given, args=(x, *given.args[1:])).run_reference())
