"""The profile on the page: real programs, traced on a simulated device and on NumPy."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import pytest

import webpte
from page.app import App
from page.shared.html.units import us_text
from page.shared.inputs.inputs import TensorInput
from page.views.profile.chart import Bar, thinned
from page.views.profile.panel import MOST_PINNED
from page.views.profile.shorter import TOKENS
from page.views.profile.timeline import amount_text, kernel_colours, rows_view
from support.page.fake_page import GPU, ROOT, FakeBrowser, drive, open_file, open_sample, run
from support.page.markup import check
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.inspection.report import Rates, TimedStep, Trace, Work
from webpte.llm.open_program import open_program

LLAMA = ROOT / "tests" / "data" / "llm" / "llama_tiny_fp32.pte"
ADDER = "add.pte"
LIMITS = {"maxBufferSize": 1 << 28, "maxStorageBufferBindingSize": 1 << 27}


class Recording:
    """An engine on a simulated device with a given description."""

    def __init__(self, *features: str, **info: Any) -> None:
        self.device = SimulatedDevice(features=features)
        self.device.info = replace(self.device.info, **info)
        self.programs: list[Any] = []

    async def shared_device(self) -> None:
        """Do nothing: each program gets its device when it is loaded."""

    async def inspect(self, source: Any, **options: Any) -> Any:
        return await webpte.inspect(source, **options)

    async def load(self, source: Any, **options: Any) -> Any:
        program = await open_program(source, **{**options, "device": self.device})
        self.programs.append(program)
        return program


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"profile:{what}", **more})


async def look(app: App) -> None:
    await app.receive({"act": "view", "name": "profile"})


def text_of(browser: FakeBrowser) -> str:
    return unescape(re.sub("<[^>]*>", " ", browser.html["view-profile"]))


def bars(browser: FakeBrowser, kind: str) -> list[str]:
    html = browser.html["view-profile"]
    found = re.findall(rf'class="bar-{kind}(?:-\w+)?"[^>]*><title>(.*?)</title>', html)
    return [unescape(text) for text in found]


def rows(browser: FakeBrowser, heading: str, last: bool = False) -> dict[str, list[str]]:
    """Return the cells by row name, of the first or last table with this first heading."""
    tables = re.findall("<table>.*?</table>", browser.html["view-profile"], re.S)
    for table in reversed(tables) if last else tables:
        if f'<th scope="col">{heading}</th>' in table:
            bare = re.sub("</?button.*?>", "", table)  # names link to the graph
            found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', bare, re.S)
            return {unescape(n): re.findall("<td[^>]*>(.*?)</td>", cells) for n, cells in found}
    raise AssertionError(f"no table by {heading}")


def saved(browser: FakeBrowser, name: str) -> Any:
    assert browser.other["download"]["name"] == name
    return json.loads(browser.links[-1])


def test_a_traced_run_is_a_timeline_tables_and_files() -> None:
    engine = Recording("timestamp-query", limits=LIMITS)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, LLAMA)
        await look(app)
        assert not bars(browser, "kernel")
        await act(app, "trace")
        assert browser.text["status"].startswith("Traced: first run ")
        assert not browser.html.get("error")
        session = app._state.session
        assert session is not None
        given = [state.array() for state in session.inputs]
        trace = await session.program.trace("forward", *given)
        assert len(bars(browser, "kernel")) == len(trace.steps)
        assert any("aten.embedding.default" in text for text in bars(browser, "kernel"))
        assert [len(bars(browser, kind)) for kind in ("submit", "wait")] == [1, 1]
        names = {span.name for span in trace.spans if span.kind == "kernel"}
        colours = kernel_colours([trace])
        assert colours.keys() == names
        legend = browser.html["view-profile"].partition("Kernels on the GPU")[2]
        assert legend.count('class="swatch bar-kernel-') == len(set(colours.values()))
        shares = [int(one) for one in re.findall(r" (\d+) %</li>", legend)]
        assert len(shares) == len(set(colours.values()))
        assert "No GPU clock" not in text_of(browser)
        shown = rows(browser, "kernel")
        wanted = {row.name: row for row in trace.by("kernel")}
        assert shown.keys() == wanted.keys()
        name, row = next((n, r) for n, r in wanted.items() if r.flops)
        count, _, share, _, _, flops, _ = shown[name]
        assert (count, flops) == (str(row.count), amount_text(row.flops or 0))
        assert share == f"{100 * (row.share or 0):.1f} %"
        assert len(rows(browser, "part of the run")["the whole run"]) == 2
        await act(app, "by", value="layer")
        assert rows(browser, "layer").keys() == {"layer 0", "layer 1", "in no layer"}
        await act(app, "by", value="where")
        assert rows(browser, "device").keys() == {"GPU"}
        await act(app, "perfetto")
        events = saved(browser, "llama_tiny_fp32.forward.perfetto.json")["traceEvents"]
        assert sum(event.get("cat") == "kernel" for event in events) == len(trace.steps)
        await act(app, "open_perfetto")
        sent = browser.other["script"]["profile"]["perfetto"]
        assert json.loads(sent["text"])["traceEvents"] == events
        assert sent["name"] == "llama_tiny_fp32.forward.perfetto.json"
        await act(app, "perfetto_sent", sent=True)
        assert browser.text["status"] == "Opened in Perfetto, in another tab"
        await act(app, "perfetto_sent", sent=False)
        assert "downloaded" in browser.text["status"]
        await act(app, "json")
        assert saved(browser, "llama_tiny_fp32.forward.trace.json")["timed"] is True

    drive(script, adapter=GPU, engine=engine)


@pytest.mark.parametrize("software", [True, False])
def test_a_software_adapter_traces_fewer_tokens_unless_they_are_set(
    software: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_: Any) -> Any:  # peak rates say nothing here, and take long
        raise webpte.errors.DeviceError("no rates")

    monkeypatch.setattr("page.views.profile.panel.rates_of", none)
    engine = Recording("timestamp-query", kind="webgpu", software=software)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, LLAMA)
        session = app._state.session
        assert session is not None
        traced: list[tuple[int, ...]] = []
        trace = session.program.trace

        async def watched(method: str, *arrays: Any) -> Any:
            traced.append(arrays[0].shape)
            return await trace(method, *arrays)

        session.program.trace = watched  # type: ignore[method-assign, assignment]
        tokens = session.inputs[0]
        assert isinstance(tokens, TensorInput)
        most = tokens.bounds[-1][1]
        assert most > TOKENS
        await look(app)
        note = f"{TOKENS} tokens are traced instead of {most}"
        assert (note in text_of(browser)) == software
        await act(app, "trace")
        assert (note in text_of(browser)) == software
        await app.receive({"act": "graph:measure"})
        assert (note in browser.text["status"]) == software
        assert traced == [(1, TOKENS if software else most)] * 3
        assert tokens.dims[-1] == most
        await app.receive({"act": "dim", "input": "0", "dim": "1", "value": str(most - 1)})
        await act(app, "trace")
        assert traced[3:] == [(1, most - 1)] * 2
        assert note not in text_of(browser)

    drive(script, adapter=GPU, engine=engine)


def test_a_kernel_whose_bytes_stand_at_another_tells_none() -> None:
    steps = (
        TimedStep(0, "fused", "long", None, "gpu", 30.0, Work(3000, 0, None)),
        TimedStep(0, "fused", "short", None, "gpu", 10.0, None),
    )
    trace = Trace("m.pte", "forward", "webgpu", True, 40.0, (), steps)
    html = rows_view(trace, "kernel", str, Rates(1.0, 1.0))
    cells = dict(re.findall(r'<th scope="row"><button[^>]*>(\w+)</button></th>(.*?)</tr>', html))
    long, short = (re.findall(r"<td[^>]*>(.*?)</td>", cells[name]) for name in ("long", "short"))
    assert long == ["1", "30 µs", "75.0 %", "10 %", "2.93 KiB", "0.1", "-", "-"]
    assert short == ["1", "10 µs", "25.0 %", "-", "-", "-", "-", "-"]


def test_two_runs_are_held_side_by_side_and_against_the_adapter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The baseline stays when another program is opened; the adapter is measured once."""
    measured = []

    async def rates(device: Any) -> Rates:
        measured.append(device)
        return Rates(gigabytes_per_second=100.0, gigaflops=50.0)

    monkeypatch.setattr("page.views.profile.panel.rates_of", rates)
    engine = Recording("timestamp-query", kind="webgpu")

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, LLAMA)
        await look(app)
        await act(app, "trace")
        assert browser.text["status"].startswith("Traced: first run")
        session = app._state.session
        assert session is not None
        trace = await session.program.trace("forward", *(s.array() for s in session.inputs))
        row = next(row for row in trace.by("kernel") if row.flops)
        part = max((row.gigabytes_per_second or 0) / 100, (row.gigaflops or 0) / 50)
        limit = rows(browser, "kernel")[row.name][3]
        assert limit.endswith(" %")
        if part < 1:
            assert float(limit[:-2]) == pytest.approx(100 * part, rel=0.01)
        limits = [cells[3] for cells in rows(browser, "kernel").values()]
        assert all(one in ("-", "≥ 100 %") or float(one[:-2]) < 100 for one in limits)
        assert "moves 100 GB/s" in text_of(browser)
        await act(app, "keep")
        await act(app, "keep")  # once is enough
        assert "A, shown" not in text_of(browser)  # it is the run that is shown
        await open_sample(app, ADDER)
        await look(app)
        await act(app, "trace")
        assert len(measured) == 1
        text = text_of(browser)
        assert "A: llama_tiny_fp32.pte, forward on webgpu, second run" in text
        assert "B, shown: add.pte, forward on webgpu, second run" in text
        pairs = rows(browser, "kernel", last=True)
        assert pairs[row.name][1] == pairs[row.name][3] == "-"  # B has no such kernel
        assert pairs[row.name][4] == f"-{us_text(row.microseconds)}"
        await act(app, "unkeep")
        assert "B against A" not in text_of(browser)

    drive(script, adapter=GPU, engine=engine)


def test_several_runs_are_stacked_on_one_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    async def rates(device: Any) -> Rates:
        return Rates(gigabytes_per_second=100.0, gigaflops=50.0)

    monkeypatch.setattr("page.views.profile.panel.rates_of", rates)
    engine = Recording("timestamp-query", kind="webgpu")

    def row_names(browser: FakeBrowser) -> list[str]:
        (found,) = re.findall(
            r'<div class="profile-rows profile-below-ruler"[^>]*>(.*?)</div>',
            browser.html["view-profile"],
        )
        return re.findall(r">([^<]+)</span>", found)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, LLAMA)
        await look(app)
        await act(app, "trace")
        assert row_names(browser) == ["Host", "GPU"]
        alone = len(bars(browser, "kernel"))
        await act(app, "keep")
        assert row_names(browser) == ["Host", "GPU"]
        await act(app, "run", value="first")
        await act(app, "keep")
        await open_sample(app, ADDER)
        await look(app)
        await act(app, "trace")
        check(browser.html["view-profile"])
        tracks = [f"{letter} {track}" for letter in "ABC" for track in ("Host", "GPU")]
        assert row_names(browser) == tracks
        assert "Timeline of 3 runs of" in browser.html["view-profile"]
        kernels = bars(browser, "kernel")
        assert len([one for one in kernels if one.startswith("A: ")]) == alone
        assert {one[:3] for one in kernels} == {"A: ", "B: ", "C: "}
        # Only calls of the open program are in its graph.
        linked = re.findall(r"<title>([^<]*)</title></rect>", browser.html["view-profile"])
        assert linked
        nodes = re.findall(r"<rect[^>]*data-node[^>]*><title>(.)", browser.html["view-profile"])
        assert set(nodes) == {"C"}
        # The tables compare with the run pinned last, or the chosen one.
        text = text_of(browser)
        assert "B: llama_tiny_fp32.pte, forward on webgpu, first run" in text
        assert "C against B" in text
        await act(app, "baseline", value="A")
        assert "C against A" in text_of(browser)
        await act(app, "baseline", value="C")  # it is the shown run
        await act(app, "baseline", value="Z")
        await act(app, "unkeep", at="0")
        text = text_of(browser)
        assert "A: llama_tiny_fp32.pte, forward on webgpu, first run" in text
        assert "B against A" in text
        for _ in range(MOST_PINNED):
            await act(app, "trace")
            await act(app, "keep")
        assert browser.text["status"] == f"{MOST_PINNED} runs are pinned: unpin one first"
        await act(app, "unkeep")
        assert row_names(browser) == ["Host", "GPU"]

    drive(script, adapter=GPU, engine=engine)


def test_without_a_clock_it_says_so_and_shows_the_rest() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, ADDER)
        await look(app)
        await act(app, "trace")
        assert "No GPU clock" in text_of(browser)
        assert len(bars(browser, "kernels")) == 1
        assert all(cells[1] == "-" for cells in rows(browser, "kernel").values())

    drive(script, adapter=GPU, engine=Recording())


def test_memory_is_that_of_the_program() -> None:
    engine = Recording("timestamp-query", limits=LIMITS)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, LLAMA)
        await look(app)
        (program,) = engine.programs
        report = program.memory("forward")
        turns = [t for b in report.buffers if b.kind == "activations" for t in b.tensors]
        assert len(bars(browser, "even") + bars(browser, "odd")) == len(turns)
        text = text_of(browser)
        assert all(kind in text for kind in report.by_kind)
        assert "maxStorageBufferBindingSize" in text
        assert f"at call {report.peak_node:,}, " in text
        assert len(rows(browser, "buffer")) == len(report.buffers)
        await act(app, "memory_json")
        stored = saved(browser, "llama_tiny_fp32.forward.memory.json")
        assert stored["limits"] == LIMITS

    drive(script, adapter=GPU, engine=engine)


def test_on_numpy_there_are_ops_and_no_memory_and_no_call_is_counted() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, LLAMA)
        await run(app)
        session = app._state.session
        assert session is not None
        calls = len(session.history.calls)
        given = [np.array([[3]]), np.array([1])]
        before = await session.program.trace("forward", *given)
        await look(app)
        await act(app, "trace")
        assert len(bars(browser, "host")) == len(before.steps)
        assert "On NumPy all runs on the host" in text_of(browser)
        assert "NumPy, which has no memory of its own" in text_of(browser)
        assert len(session.history.calls) == calls

    drive(script)


def test_a_stop_keeps_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, ADDER)
        await look(app)
        session = app._state.session
        assert session is not None
        trace, traced = session.program.trace, 0

        async def stopped(*given: Any) -> Any:
            nonlocal traced
            traced += 1
            await asyncio.sleep(0)
            assert 'data-act="cancel"' in browser.html["view-profile"]
            await app.receive({"act": "cancel"})
            return await trace(*given)

        monkeypatch.setattr(session.program, "trace", stopped)
        await act(app, "trace")
        assert traced == 1
        assert browser.text["status"] == "Stopped after the first run"
        assert len(rows(browser, "part of the run")["the whole run"]) == 1
        assert 'data-act="cancel"' not in browser.html["view-profile"]

    drive(script)


def test_what_is_of_other_inputs_or_another_program_is_not_taken_for_this() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await look(app)
        await act(app, "trace")
        assert "Inputs changed since" not in text_of(browser)
        await app.receive({"act": "fill", "input": "0", "value": "ramp"})
        assert "Inputs changed since" in text_of(browser)
        await open_sample(app, ADDER)
        await look(app)
        assert not bars(browser, "host")

    drive(script)


def test_a_run_that_fails_is_told_and_can_be_traced_again() -> None:
    engine = Recording("timestamp-query")

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, ADDER)
        await look(app)
        engine.device.inject(webpte.errors.OutOfMemoryError)
        await act(app, "trace")
        assert "OutOfMemoryError" in browser.html["error"]
        assert not bars(browser, "kernel")
        await act(app, "trace")
        assert bars(browser, "kernel")
        assert not browser.html["error"]

    drive(script, adapter=GPU, engine=engine)


def test_bars_that_nobody_could_tell_apart_are_one() -> None:
    many = [Bar(at % 2, at / 10, 0.1, "kernel", f"k{at}") for at in range(5000)]
    few = thinned(many, 500, 100)
    assert len(few) <= 2 * 101
    assert sum(bar.length for bar in few) == pytest.approx(1000, rel=0.1)
    assert thinned(many[:90], 500, 100) == many[:90]
    assert few[0].text == "25 kernels, from “k0” to “k48”"


def test_what_is_faster_than_the_measured_peak_is_not_more_than_all_of_it() -> None:
    trace = Trace("a.pte", "forward", "webgpu", True, 10.0, (), (
        TimedStep(0, "aten.add.Tensor", "add", None, "gpu", 1.0, Work(2000, 2000, None)),
        TimedStep(1, "aten.mm.default", "gemm", None, "gpu", 1.0, Work(2, 2, 500)),
    ))  # fmt: skip
    shown = unescape(rows_view(trace, "kernel", str, Rates(1.0, 1.0)))
    assert "≥ 100 %" in shown
    assert "50 %" in shown
    assert "400 %" not in shown
