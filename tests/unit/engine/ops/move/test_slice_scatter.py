"""Slices replaced in a copy: references and refused arguments."""

from __future__ import annotations

import pytest

from support.cases.move.slice_scatter_cases import SELECT, SLICE
from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.errors import GraphError


@pytest.mark.parametrize(
    ("op", "source", "numbers", "message"),
    [
        (SLICE, (2, 3), (0, 0, 3, 1), "does not fit into"),
        (SLICE, (2, 3), (0, 0, 2, 0), "step is 0"),
        (SELECT, (3,), (0, 4), "index 4 is outside of a dim of size 4"),
        (SELECT, (4,), (0, 1), "does not fit into"),
    ],
)
def test_refuses(op: str, source: tuple[int, ...], numbers: tuple[int, ...], message: str) -> None:
    g = GraphWriter()
    x, part, out = g.tensor((4, 3)), g.tensor(source), g.tensor((4, 3))
    g.inputs(x, part)
    g.outputs(g.op(op, x, part, *map(g.int, numbers), out))
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(GraphError, match=message):
        planner.lower_all()
