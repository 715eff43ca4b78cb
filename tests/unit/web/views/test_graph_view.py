"""The graph on the page: real programs, and acts on their boxes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import webpte
from page.app import App
from page.views.graph import outline
from page.views.graph.names import short
from page.views.graph.outline import Box, OutlineCall, all_folds
from page.views.graph.panel import GraphPanel
from support.graphs.stitching import logcumsumexp, method
from support.page.chats import Q4
from support.page.fake_page import GPU, SAMPLES, FakeBrowser, drive, open_file, open_sample, run
from support.write.pte_writer import write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.inspection.report import MethodGraph
from webpte.llm.open_program import open_program


class Recorded:
    """An engine whose WebGPU is a simulated device with kernels."""

    inspect = staticmethod(webpte.inspect)

    async def shared_device(self) -> None:
        """Do nothing: each program gets its device when it is loaded."""

    async def load(self, source: Any, **options: Any) -> Any:
        return await open_program(source, **{**options, "device": SimulatedDevice()})


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"graph:{what}", **more})


async def look_at(app: App, path: Path = Q4) -> None:
    """Open the graph as a list, which holds its content; tests of the drawing check that
    themselves."""
    await open_file(app, path)
    await app.receive({"act": "view", "name": "graph"})
    await act(app, "drawing", value="list")


def calls(browser: FakeBrowser) -> list[int]:
    return [int(one) for one in re.findall(r'id="graph-call-(\d+)"', browser.html["view-graph"])]


def text_of(browser: FakeBrowser) -> str:
    return unescape(re.sub("<[^>]*>", " ", browser.html["view-graph"]))


def no_error(browser: FakeBrowser) -> None:
    assert not browser.html.get("error")


async def graph_of(path: Path, stage: str = "planned", device: Any = "numpy") -> MethodGraph:
    program = await webpte.load(path, device=device)
    return program.graph("forward", stage)


def nodes_of(boxes: Sequence[Box]) -> list[int]:
    return [box.node.id for box in boxes if isinstance(box, OutlineCall)]


def test_every_call_is_in_one_box_whatever_is_open() -> None:
    graph = asyncio.run(graph_of(Q4))
    assert graph.layers
    everything = [node.id for node in graph.nodes]
    assert nodes_of(outline.outline(graph, all_folds(graph))) == everything
    folded = outline.outline(graph, ())
    (fold,) = [box for box in folded if not isinstance(box, OutlineCall)]
    assert sorted([*nodes_of(folded), *(node.id for node in fold.nodes)]) == everything
    for node in graph.nodes:
        assert node.id in nodes_of(outline.outline(graph, outline.folds_around(graph, node.id)))


def test_names_without_their_name_space() -> None:
    names = (
        "aten.add.Tensor",
        "et_vk.rms_norm.default",
        "webpte.gemm_add",
        "sym_size.int",
        "add",
    )
    assert [*map(short, names)] == ["add.Tensor", "rms_norm", "gemm_add", "sym_size.int", "add"]


def test_folds_open_and_close() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        graph = await graph_of(Q4)
        (group,) = graph.layers
        start, stop = group.ranges[1]
        assert f"layer × {group.count}" in text_of(browser)
        assert start not in calls(browser)
        await act(app, "toggle", key="0")
        await act(app, "toggle", key="0.1")
        assert set(range(start, stop)) <= set(calls(browser))
        assert group.ranges[0][0] not in calls(browser)
        await act(app, "fold")
        assert start not in calls(browser)
        await act(app, "unfold")
        assert calls(browser) == [node.id for node in graph.nodes]
        no_error(browser)

    drive(script)


def test_finding_and_following_an_edge() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        graph = await graph_of(Q4)
        await act(app, "search", value=" RMS_norm")
        wanted = [node.id for node in graph.find("rms_norm")]
        assert calls(browser) == wanted
        assert f"{len(wanted)} calls of {len(graph.nodes)} found" in text_of(browser)
        given = graph.nodes[wanted[1]].outputs[0]
        await act(app, "search", value=given)
        assert {wanted[1], graph.readers(given)[0].id} <= set(calls(browser))
        # To where it comes from: the search ends, the layer around it opens.
        await act(app, "go", node=str(wanted[1]))
        assert wanted[1] in calls(browser)
        assert f'id="graph-call-{wanted[1]}"' in browser.html["view-graph"]
        assert browser.other["script"] == {"graph": {"focus": f"graph-call-{wanted[1]}"}}
        assert "feeds it" in text_of(browser)
        assert "uses it" in text_of(browser)
        await act(app, "search", value="<nothing>")
        assert calls(browser) == []
        assert "<nothing>" not in browser.html["view-graph"]
        no_error(browser)

    drive(script)


def test_a_call_on_the_gpu_shows_its_kernels() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        graph = await graph_of(Q4, device=SimulatedDevice())
        node = graph.find("gated_gemm")[0]
        await act(app, "go", node=str(node.id))
        shown, kernel = text_of(browser), node.kernels[0]
        assert f"grid {' × '.join(map(str, kernel.grid))}" in shown
        assert "fn main" not in shown
        await act(app, "wgsl", kernel="0")
        assert kernel.wgsl.strip() in unescape(browser.html["view-graph"])
        assert kernel.params
        for name in kernel.params:
            assert f'<th scope="row">{name}</th>' in browser.html["view-graph"]
        for argument in node.arguments:
            cell = f"<td>{argument.name}" if argument.values else f">{argument.name}</th>"
            assert cell in browser.html["view-graph"] or argument.value in (None, [])
        assert 'class="graph-dot graph-kind-linear"' in browser.html["view-graph"]
        await act(app, "colour", value="dtype")
        assert "graph-dot graph-tint-0" in browser.html["view-graph"]
        await act(app, "stage", value="file")
        assert "in a delegate" not in shown
        await act(app, "colour", value="where")
        assert "in a delegate" in text_of(browser)
        no_error(browser)

    drive(script, GPU, Recorded())


def test_a_call_shows_the_line_of_the_model_that_made_it(tmp_path: Path) -> None:
    m = method((4,))
    m.outputs(logcumsumexp(m, m.input(0)))
    m.line("/home/me/model.py", 7, "forward", "return x.logcumsumexp(0) < 1")
    path = tmp_path / "traced.pte"
    path.write_bytes(write_pte(m))

    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, path)
        await act(app, "go", node="0")
        assert "model.py:7 in forward: return x.logcumsumexp(0) < 1" in text_of(browser)
        await look_at(app)
        await act(app, "go", node="0")
        assert "PyTorch line" not in text_of(browser)
        no_error(browser)

    drive(script)


def test_a_histogram_comes_on_demand() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, SAMPLES / "digits.pte")
        panel = app._views.panel("graph")
        assert isinstance(panel, GraphPanel)
        graph = await graph_of(SAMPLES / "digits.pte")
        value = graph.constants[0]
        assert value.constant is not None
        await act(app, "go", node=str(graph.readers(value.key)[0].id))
        assert "<rect" not in browser.html["view-graph"]
        await act(app, "count", key=value.key)
        assert "Counting" in text_of(browser)
        await asyncio.wait(set(panel._tasks))
        histogram = await value.constant.histogram()
        assert browser.html["view-graph"].count("<rect") == len(histogram.counts)
        assert f"mean {histogram.mean:.5g}" in text_of(browser)
        no_error(browser)

    drive(script)


def test_live_shapes_follow_runs_and_another_program_starts_anew() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        await act(app, "go", node="1")
        session = app._state.session
        assert session is not None
        await app.receive({"act": "dim", "input": "0", "dim": "1", "value": "5"})
        await run(app)
        live = session.program.graph().nodes[1].outputs[0]
        shape = session.program.graph().values[live].shape
        assert shape != session.program.graph().values[live].largest
        assert " × ".join(map(str, shape)) in text_of(browser)
        await act(app, "search", value="linear")
        await open_sample(app, "digits.pte")
        await app.receive({"act": "view", "name": "graph"})  # still as a list
        assert len(calls(browser)) == 8
        assert "feeds it" not in text_of(browser)
        no_error(browser)

    drive(script, GPU, Recorded())


def test_long_columns_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("page.views.graph.outline.SHOWN", 20)
    monkeypatch.setattr("page.views.graph.boxes.SHOWN", 20)

    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        await act(app, "unfold")
        assert len(calls(browser)) < 20  # with the boxes of the folds
        assert "Outputs" not in text_of(browser)
        last = len((await graph_of(Q4)).nodes) - 1
        await act(app, "go", node=str(last))
        assert last in calls(browser)
        assert "Outputs" in text_of(browser)
        await act(app, "turn", first="0")
        assert calls(browser)[0] == 0
        no_error(browser)

    drive(script)


def test_a_search_finds_fused_calls_by_what_is_in_them_and_says_so() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        graph = await graph_of(Q4, device=SimulatedDevice())
        wanted = [node for node in graph.nodes if any("rms" in op for op in (node.op, *node.parts))]
        fused = [node for node in wanted if node.parts]
        assert fused
        await act(app, "search", value="rms")
        assert calls(browser) == [node.id for node in wanted]
        assert "fused and contain rms_norm" in text_of(browser)
        assert text_of(browser).count("contains rms_norm") == len(fused)

    drive(script, GPU, Recorded())


def test_a_call_leads_to_what_it_came_from_and_back() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        planned = await graph_of(Q4, device=SimulatedDevice())
        file = await graph_of(Q4, "file", SimulatedDevice())
        node = planned.find("gated_gemm")[0]
        await act(app, "go", node=str(node.id))
        assert "In the original graph" in text_of(browser)
        assert f"{len(node.parts)} calls fused into one" in text_of(browser)
        origins = [
            int(one)
            for one in re.findall(r'graph:link" data-node="(\d+)"', browser.html["view-graph"])
        ]
        assert [file.nodes[one].op for one in origins] == list(node.parts)
        await act(app, "link", node=str(origins[0]))
        assert f'aria-label="Call {origins[0]}, {node.parts[0]}"' in browser.html["view-graph"]
        assert "Fused with others into one call" in text_of(browser)
        await act(app, "link", node=str(node.id))
        assert f'aria-label="Call {node.id}, {node.op}"' in browser.html["view-graph"]
        no_error(browser)

    drive(script, GPU, Recorded())


def test_values_have_names_and_hashes_and_numbers_come_last() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app, SAMPLES / "digits.pte")
        await act(app, "choose", node="1")
        shown = text_of(browser)
        inside = shown[shown.index("Attributes") :]
        assert "Weight conv_with_clamp 1 weight" in " ".join(inside.split())
        assert "conv_with_clamp 0 out" in inside
        (stored,) = re.findall(r"value 0\.2 of the file, kept as ([0-9a-f]{64})", inside)
        assert inside.index("conv_with_clamp 1 weight") < inside.index(stored)
        assert inside.index("stride") < inside.index("operator")
        rows = re.findall(r'<th scope="row">(.*?)</th>', browser.html["view-graph"])
        assert not any(re.fullmatch(r"\d+\.\d+|[0-9a-f]{64}", row) for row in rows)
        no_error(browser)

    drive(script)


def is_full(browser: FakeBrowser) -> bool:
    return bool(browser.other["script"]["graph"]["full"])


def test_the_full_window_ends_with_another_view_or_program() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await look_at(app)
        await act(app, "drawing", value="drawn")
        await act(app, "full")
        assert 'class="card graph graph-full"' in browser.html["view-graph"]
        assert is_full(browser)
        assert ">Exit full window<" in browser.html["view-graph"]
        await app.receive({"act": "view", "name": "run"})
        assert not is_full(browser)
        await app.receive({"act": "view", "name": "graph"})
        assert "graph-full" not in browser.html["view-graph"]
        await act(app, "full")
        await open_file(app, SAMPLES / "digits.pte")
        assert "graph-full" not in browser.html["view-graph"]
        assert not is_full(browser)
        no_error(browser)

    drive(script)
