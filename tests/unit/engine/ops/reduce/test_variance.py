"""Variances, extremes with their indices, and cumulative sums: references and layouts."""

from __future__ import annotations

import pytest

from support.cases.reduce.variance_cases import CUMULATIVE_CASES, EXTREME_CASES, VARIANCE_CASES
from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.target import GPU, Target
from webpte.errors import WebpteError

CASES = [*VARIANCE_CASES, *EXTREME_CASES, *CUMULATIVE_CASES]


def sums(length: int, out: str = "float32") -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((3, length))
    g.inputs(x)
    g.outputs(g.op("aten.cumsum.default", x, g.int(1), g.null(), g.tensor((3, length), out)))
    return g


@pytest.mark.parametrize(
    ("length", "target", "lanes"),
    [(7, GPU, 1), (100, GPU, 8), (9999, GPU, 256), (9999, Target(software=True), 1)],
)
def test_long_rows_have_several_threads(length: int, target: Target, lanes: int) -> None:
    planner, _ = make_planner(build_graph(sums(length)), target)
    planner.lower_all()
    (dispatch,) = planner.dispatches()
    assert dict(dispatch.overrides)["LANES"] == lanes


def test_sums_that_are_bytes_run_on_the_host() -> None:
    planner, _ = make_planner(build_graph(sums(5, "int8")))
    planner.lower_all()
    assert any(step.host for step in planner.calls)


def test_nothing_has_no_largest_element() -> None:
    g = GraphWriter()
    x = g.tensor((3, 0))
    outs = g.value_list([g.tensor((3,)), g.tensor((3,), "int32")])
    g.inputs(x)
    g.op("aten.max.dim", x, g.int(1), g.bool_(False), outs)
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(WebpteError, match="no elements"):
        planner.lower_all()
