"""Displays in notebooks: programs and tensors as tables, traces and comparisons as plots."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from support.devices.recorded import ADD, RELU, ones
from support.graphs.graphs import load, wait
from support.harness.inspecting import APART
from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import PackageError
from webpte.inspection.report import Comparison, Trace, plots


def add_and_relu() -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((3,))
    added = g.op(ADD, x, x, g.int(1), g.tensor((3,)))
    g.inputs(x)
    g.outputs(g.op(RELU, added, g.tensor((3,))))
    return g


class DrawnAxes:
    """A recorder of drawing calls: the tests have no matplotlib."""

    def __init__(self) -> None:
        self.drawn: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def draw(*values: Any, **options: Any) -> None:
            self.drawn.append((name, values, options))

        return draw

    def of(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(values, options) for drawn, values, options in self.drawn if drawn == name]


@pytest.fixture(scope="module")
def looked_into() -> tuple[str, str, str, Trace, Comparison]:
    """The HTML of a program, a tensor and a destroyed one; a trace and a comparison."""

    async def run() -> tuple[str, str, str, Trace, Comparison]:
        device = SimulatedDevice(features=("timestamp-query",))
        async with await load(add_and_relu(), device=device, **APART) as program:
            (kept,) = await program.forward(ones(3), output="gpu")
            whole = kept._repr_html_()
            kept.destroy()
            trace = await program.trace("forward", ones(3))
            compared = await program.compare("forward", ones(3))
            return program._repr_html_(), whole, kept._repr_html_(), trace, compared

    return wait(run())


def test_a_program_is_a_table_of_its_methods(looked_into: Any) -> None:
    html = looked_into[0]
    assert "<td>forward</td><td>input0: float32 [3]</td>" in html


def test_a_tensor_says_where_it_is(looked_into: Any) -> None:
    _, whole, destroyed, *_ = looked_into
    assert "<td>float32</td><td>3</td><td>12</td><td>recording</td>" in whole
    assert "<td>destroyed</td>" in destroyed


def test_every_span_of_a_trace_is_drawn_in_milliseconds(looked_into: Any) -> None:
    trace, axes = looked_into[3], DrawnAxes()
    assert plots.plot_trace(trace, axes) is axes
    bars = [bar for (spans, _place), _ in axes.of("broken_barh") for bar in spans]
    assert sorted(bars) == sorted((s.start / 1e3, s.duration / 1e3) for s in trace.spans)
    labels = {options["label"] for _, options in axes.of("broken_barh")}
    assert labels == {span.kind for span in trace.spans}


def test_a_comparison_is_drawn_call_by_call(looked_into: Any) -> None:
    compared, axes = looked_into[4], DrawnAxes()
    plots.plot_comparison(compared, axes)
    lines = axes.of("semilogy")
    assert [options["label"] for _, options in lines] == ["this call adds", "so far"]
    assert all(list(at) == [0, 1] and min(values) > 0 for (at, values), _ in lines)
    ((_, names), _) = axes.of("set_xticks")[0]
    assert names == ["add", "relu"]


def test_without_matplotlib(looked_into: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PackageError, match="pip install matplotlib"):
        plots.plot_trace(looked_into[3])
