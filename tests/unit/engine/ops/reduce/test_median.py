"""Medians: references, and calls that are refused or left to the host."""

from __future__ import annotations

import pytest

from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.engine.plan.planner import Planner
from webpte.errors import GraphError


def planner_of(dims: tuple[int, ...], dtype: str = "float32", places: str = "int32") -> Planner:
    g = GraphWriter()
    x, values, indices = (
        g.tensor(dims, dtype),
        g.tensor(dims[:-1], dtype),
        g.tensor(dims[:-1], places),
    )
    g.inputs(x)
    g.op("aten.median.dim", x, g.int(-1), g.bool_(False), g.value_list([values, indices]))
    g.outputs(values, indices)
    return make_planner(build_graph(g))[0]


@pytest.mark.parametrize(
    ("dims", "dtype", "places", "message"),
    [
        ((2, 0), "float32", "int32", "no elements"),
        ((2, 3), "int32", "int32", "defined for floats"),
        ((2, 3), "float32", "uint8", "indices are int32"),
    ],
)
def test_refuses(dims: tuple[int, ...], dtype: str, places: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        planner_of(dims, dtype, places).lower_all()


def test_very_long_rows_are_the_hosts() -> None:
    planner = planner_of((2, 400_000))
    planner.lower_all()
    assert "sorts a row of 400000 faster" in str(planner.calls[0].host)
