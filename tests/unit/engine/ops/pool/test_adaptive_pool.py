"""Adaptive pooling: references and refused arguments."""

from __future__ import annotations

import pytest

from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.errors import GraphError


@pytest.mark.parametrize(
    ("dims", "sizes", "message"),
    [
        ((2, 3, 4), [1], "cannot be pooled"),
        ((3,), [1, 1], "cannot be pooled"),
        ((2, 3, 4), [1, -1], "cannot be pooled"),
        ((2, 0, 4), [1, 1], "no elements"),
    ],
)
def test_refuses(dims: tuple[int, ...], sizes: list[int], message: str) -> None:
    g = GraphWriter()
    x = g.tensor(dims)
    g.inputs(x)
    out = g.tensor((2, 1, 1))
    g.outputs(g.op("aten._adaptive_avg_pool2d.default", x, g.int_list(sizes), out))
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(GraphError, match=message):
        planner.lower_all()
