"""The diagram as its script gets it: boxes, edges, colours, the selection."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from page.app import App
from page.views.graph.drawn import drawing_of
from page.views.graph.kinds import KINDS, kind_of
from page.views.graph.outline import all_folds, outline
from page.views.graph.tints import HEATS, Times, Tints
from support.page.chats import Q4
from support.page.fake_page import GPU, SAMPLES, FakeBrowser, drive, open_file, run
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.inspection.report import MethodGraph
from webpte.llm.open_program import open_program

DIGITS = SAMPLES / "digits.pte"


class Recorded:
    """An engine whose WebGPU is a simulated device with kernels and a clock."""

    inspect = staticmethod(webpte.inspect)

    async def shared_device(self) -> None:
        """Do nothing: each program gets its device when it is loaded."""

    async def load(self, source: Any, **options: Any) -> Any:
        device = SimulatedDevice(features=("timestamp-query",))
        return await open_program(source, **{**options, "device": device})


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"graph:{what}", **more})


async def look_at(app: App, path: Path) -> None:
    await open_file(app, path)
    await app.receive({"act": "view", "name": "graph"})


def told(browser: FakeBrowser) -> Mapping[str, Any]:
    """Return the data that the script got last."""
    data: Mapping[str, Any] = browser.other["script"]["graph"]
    return data


def graph_of(path: Path) -> MethodGraph:
    async def load() -> MethodGraph:
        return (await webpte.load(path, device="numpy")).graph("forward")

    return asyncio.run(load())


def test_edges_lead_from_box_to_box_whatever_is_folded() -> None:
    graph = graph_of(Q4)
    inputs = len(graph.inputs)
    for opened in ((), {"0"}, {"0", "0.1"}, all_folds(graph)):
        drawing = drawing_of(graph, outline(graph, opened))
        kinds = [box.kind for box in drawing.boxes]
        assert kinds[:inputs] == ["input"] * inputs
        assert kinds[-len(graph.outputs) :] == ["output"] * len(graph.outputs)
        assert drawing.box_of.keys() == {node.id for node in graph.nodes}
        assert all(start < end for start, end in drawing.edges)
        assert len(set(drawing.edges)) == len(drawing.edges)
        for edge in graph.edges:  # each is drawn, unless it is inside of a fold
            if edge.source is not None and edge.target is not None:
                ends = drawing.box_of[edge.source], drawing.box_of[edge.target]
                assert ends[0] == ends[1] or ends in drawing.edges
        for group in drawing.groups:
            assert group.fold in opened
            assert 0 < group.first < group.stop < len(kinds)
    (layers,) = [box for box in drawing_of(graph, outline(graph, ())).boxes if box.fold]
    assert layers.title == f"layer × {graph.layers[0].count}"


def test_boxes_show_kind_and_attributes() -> None:
    graph = graph_of(DIGITS)
    kinds = [kind_of(node) for node in graph.nodes]
    assert kinds == [*["convolution"] * 4, "shape", "shape", "linear", "activation"]
    assert {*kinds} <= {*KINDS}
    texts = [
        box.text for box in drawing_of(graph, outline(graph, ())).boxes if box.node is not None
    ]
    assert texts[1] == "float32 1 × 16 × 14 × 14 · 3 × 3, stride 2"
    assert texts[6] == "float32 1 × 10"
    tints = Tints(graph, "kind", None)
    assert tints.of(graph.nodes[0]) == "graph-kind-convolution"
    assert [n for _, _, n in tints._meanings()] == [4, 1, 1, 2]
    fused = replace(graph.nodes[7], op="webpte.fused", parts=("aten.add.Tensor", "aten.mm.default"))
    assert kind_of(fused) == "linear"
    assert kind_of(replace(fused, op="some.thing", parts=())) == "math"


def test_the_script_gets_what_has_changed() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, Q4)
        first = json.loads(told(browser)["drawing"])
        assert told(browser)["file"] == "llama_tiny_q4.forward.svg"
        assert 'id="graph-drawing" data-keep' in browser.html["view-graph"]
        await act(app, "colour", value="dtype")
        assert "drawing" not in told(browser)
        paint = json.loads(told(browser)["paint"])
        assert len(paint) == len(first["boxes"])
        (fold,) = [at for at, box in enumerate(first["boxes"]) if box["fold"]]
        assert sum(share for _, share in paint[fold][2]) == 1
        await act(app, "toggle", key="0")
        opened = json.loads(told(browser)["drawing"])
        assert [group["title"] for group in opened["groups"]] == ["layer × 2"]
        await act(app, "choose", node="2")
        assert told(browser).keys() == {"mark", "file", "graph", "full"}
        box = opened["boxes"][told(browser)["mark"]["chosen"]]
        assert box["node"] == 2
        await act(app, "close")
        assert told(browser) == {"focus": "drawing"}
        assert not browser.html.get("error")

    drive(script)


def test_a_search_goes_from_match_to_match_through_folds() -> None:
    graph = graph_of(Q4)

    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, Q4)
        wanted = [node.id for node in graph.find("rms_norm")]
        inside = [node for node in wanted if graph.nodes[node].layer]
        await act(app, "search", value="rms_norm")
        before = told(browser)["mark"]
        assert before["searching"]
        assert len(before["found"]) == len(wanted) - len(inside) + 1  # and the fold
        seen = []
        for _ in range(len(wanted) + 1):
            await act(app, "step", by="1")
            assert told(browser)["mark"]["reveal"]
            (chosen,) = re.findall(r'aria-label="Call (\d+),', browser.html["view-graph"])
            seen.append(int(chosen))
        assert seen == [*wanted, wanted[0]]
        await act(app, "step", by="-1")
        assert f'aria-label="Call {wanted[-1]},' in browser.html["view-graph"]
        assert f"{len(wanted)} of {len(wanted)}" in browser.html["view-graph"]
        await act(app, "search", value="no such thing")
        await act(app, "step", by="1")
        await act(app, "search", value="int64")
        dtypes = {value.dtype for value in graph.values.values() if value.kind != "number"}
        assert bool(told(browser)["mark"]["found"]) == ("int64" in dtypes)
        assert not browser.html.get("error")

    drive(script)


def test_times_are_measured_on_demand_or_taken_from_the_profile() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, DIGITS)
        await act(app, "colour", value="time")
        assert "Not profiled yet" in browser.html["view-graph"]
        await act(app, "measure")
        session = app._state.session
        assert session is not None
        trace = session.traces["forward"]
        spent = {step.node: step.microseconds for step in trace.steps}
        assert spent
        paint = json.loads(told(browser)["paint"])
        assert sum("graph-heat" in one[0] for one in paint) == len(spent)
        assert all(one[1].endswith("s") for one in paint if "graph-heat" in one[0])
        assert "Profile again" in browser.html["view-graph"]
        await act(app, "stage", value="file")
        assert "optimized graph" in browser.html["view-graph"]
        assert not browser.html.get("error")

        await app.receive({"act": "profile:trace"})
        assert session.traces["forward"] is not trace

    drive(script, GPU, Recorded())


def test_heat_halves_from_step_to_step() -> None:
    times = Times({0: 100.0, 1: 51.0, 2: 49.0, 3: 0.0})
    assert [times.heat(node) for node in range(5)] == [0, 0, 1, HEATS - 1, None]
    assert times.total == 200


def test_values_of_a_call_are_those_of_a_run_with_the_inputs_that_are_set() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, DIGITS)
        session = app._state.session
        assert session is not None
        graph = session.program.graph("forward")
        last = next(node.id for node in reversed(graph.nodes) if node.where == "gpu")
        await act(app, "choose", node=str(last))
        assert "Show values" in browser.html["view-graph"]
        await act(app, "values")
        (given,) = [state.array() for state in session.inputs]
        (wanted,) = await (await webpte.load(DIGITS, device="numpy")).forward(given)
        values = await session.program.values("forward", given, nodes=[last])
        shown = values.calls[last].outputs[0].array
        np.testing.assert_allclose(shown.ravel(), wanted.ravel(), rtol=1e-3, atol=1e-4)
        for number in shown.ravel()[:6]:
            assert f"<td>{float(number):.5g}</td>" in browser.html["view-graph"]
        await act(app, "choose", node="1")  # they are there as well
        assert "Histogram of out" in browser.html["view-graph"]
        await run(app)
        assert "Show values" in browser.html["view-graph"]
        assert not browser.html.get("error")

    drive(script, GPU, Recorded())


def test_the_script_knows_when_another_graph_comes() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, Q4)
        await act(app, "choose", node="2")
        first = told(browser)["graph"]
        await act(app, "colour", value="dtype")
        assert told(browser)["graph"] == first
        await act(app, "stage", value="file")
        assert told(browser)["graph"] != first
        await act(app, "stage", value="planned")
        assert told(browser)["graph"] == first
        await look_at(app, DIGITS)
        assert told(browser)["graph"] != first

    drive(script)
