"""The compare view: real programs on a device whose kernels can be made wrong."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

import webpte
from page.app import App
from page.shared.npy import NpyError, write_npy
from page.views.compare.calls import PAGE
from page.views.compare.diff_map import plane_of, pooled
from page.views.compare.expected import assign
from support.graphs.graphs import chain
from support.harness.inspecting import APART, broken
from support.page.fake_page import GPU, FakeBrowser, File, drive, drop, open_sample, run
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm.open_program import open_program

RELU, SIGMOID, NEG = (f"aten.{name}.default" for name in ("relu", "sigmoid", "neg"))
SHAPE = (5, 7)
SETTINGS = {"rtol": "1e-3", "atol": "1e-3", "drift": "on"}


class Recording:
    """An engine on the simulated device, which stands for a GPU."""

    async def shared_device(self) -> None:
        """Do nothing: each program gets its device when it is loaded."""

    async def inspect(self, source: Any, **options: Any) -> Any:
        return await webpte.inspect(source, **options)

    async def load(self, source: Any, **options: Any) -> Any:
        return await open_program(source, **{**options, **APART, "device": SimulatedDevice()})


def three_calls() -> bytes:
    g = GraphWriter()
    value = g.tensor(SHAPE)
    g.inputs(value)
    for op in (RELU, SIGMOID, NEG):
        value = g.op(op, value, g.tensor(SHAPE))
    g.outputs(value)
    return write_pte(g)


async def open_view(app: App, program: bytes) -> None:
    await drop(app, File("three.pte", program))
    await app.receive({"act": "view", "name": "compare"})


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"compare:{what}", **more})


async def compare(app: App, **fields: str) -> None:
    await act(app, "compare", fields={**SETTINGS, **fields})


def panel(browser: FakeBrowser) -> str:
    """Return the panel's text."""
    text = re.sub("<[^>]*>", " ", browser.html["view-compare"])
    return re.sub(r"\s+", " ", unescape(text))


def ops(browser: FakeBrowser) -> list[str]:
    """Return one column of the table, in the order of its rows."""
    return re.findall(r'<th scope="row" title=[^>]*>([^<]*)', browser.html["view-compare"])


def test_the_first_call_that_is_off_is_shown_with_all_that_helps() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, three_calls())
        with broken(SIGMOID, by=0.25), broken(NEG, by=0.5):
            await compare(app)
        assert browser.text["status"] == f"Compared: {SIGMOID} is the first mismatched call"
        told = panel(browser)
        assert "2 of 3 calls mismatched" in told
        assert "1 of 35 elements beyond the tolerance" in told
        assert "largest difference 0.25 at [4, 6]" in told
        session = app._state.session
        assert session is not None
        highest = np.asarray(session.inputs[0].array()).max()
        assert "All calls before it match" in told
        given = told.partition("Inputs of this call")[2]
        assert f"float32 5 × 7 0 to {highest:.5g}" in given, "what relu gives"
        markup = browser.html["view-compare"]
        assert "Drift over 3 calls, 1e-1 to 1e0" in markup
        assert "Map of the differences, worst at [4, 6]" in markup
        worst = re.findall(r'class="compare-worst"><strong>([^<]*)', markup)
        assert len(worst) == 2
        assert float(worst[0]) - float(worst[1]) == pytest.approx(0.25, abs=1e-5)
        assert ops(browser) == [RELU, SIGMOID, NEG]
        assert "final drift 0.25 call 2" in told, "one is 0.25 too low by then, and 0.5 too high"

    drive(script, GPU, Recording())


def test_the_table_is_sorted_filtered_and_saved() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, three_calls())
        with broken(SIGMOID, by=0.25), broken(NEG, by=0.5):
            await compare(app)
            await act(app, "sort")
            assert ops(browser) == [NEG, SIGMOID, RELU]
            await act(app, "filter")
            assert ops(browser) == [NEG, SIGMOID]
            await act(app, "save")
            assert json.loads(browser.links[-1])["first"]["call"]["op"] == SIGMOID
            await compare(app, atol="0.3")
            assert ops(browser) == [NEG]
            await compare(app, atol="0.6")
        assert ops(browser) == []
        assert "No mismatched calls." in panel(browser)
        assert browser.text["status"] == "Compared: no mismatches"

    drive(script, GPU, Recording())


def test_a_long_table_comes_in_pieces() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, write_pte(chain(PAGE + 3, op=NEG)))
        await compare(app)
        assert len(ops(browser)) == PAGE
        assert "Show more (3 left)" in panel(browser)
        await act(app, "more")
        assert len(ops(browser)) == PAGE + 3

    drive(script, GPU, Recording())


def test_a_wrong_tolerance_is_told_and_stays() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, three_calls())
        for wrong in ("much", "-1", "nan", "inf"):
            await compare(app, rtol=wrong)
            assert browser.text["status"].startswith("The relative tolerance is a number from 0 on")
        assert "Found" not in panel(browser)

    drive(script, GPU, Recording())


def test_stopped_it_has_found_nothing_and_the_program_goes_on() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, three_calls())
        assert 'class="sketch"' in browser.html["view-compare"]
        session = app._state.session
        assert session is not None
        show, seen = browser.show, list[str]()

        def stop_at_once(**changes: Any) -> None:
            if bar := changes.get("html", {}).get("compare-progress"):
                seen.append(bar)
                session.runner.cancel()
            show(**changes)

        browser.show = stop_at_once  # type: ignore[method-assign]
        await compare(app)
        assert "1 of 3 calls" in seen[0]
        assert browser.text["status"] == "Stopped: nothing was compared"
        assert "Found" not in panel(browser)
        assert not browser.html.get("error")
        browser.show = show  # type: ignore[method-assign]
        await compare(app)
        assert browser.text["status"] == "Compared: no mismatches"

    drive(script, GPU, Recording())


def test_nan_is_traced_to_the_call_that_makes_it() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, three_calls())
        with broken(SIGMOID, by=float("nan")):
            await compare(app)
        told = panel(browser)
        assert "NaN first appears in call 1, " in told
        assert "1 element of its output, none of its inputs" in told
        assert "Infinity first" not in told

    drive(script, GPU, Recording())


def test_expected_outputs() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, three_calls())
        session = app._state.session
        assert session is not None
        x = np.asarray(session.inputs[0].array())
        right = (-1 / (1 + np.exp(-np.maximum(x, 0)))).astype(np.float32)
        await act(app, "expected", files=[File("y.npy", write_npy(right))])
        assert "output0 as in y.npy" in panel(browser)
        await compare(app)
        assert "every output as expected" in panel(browser)
        right[2, 3] += 1
        await drop(app, File("expected.npy", write_npy(right)))
        await compare(app)
        assert browser.text["status"] == "Compared: some outputs are not as expected"
        assert "1 of 35 elements beyond the tolerance" in panel(browser)
        assert "worst at [2, 3]" in browser.html["view-compare"]
        await act(app, "expected", files=[File("y.npy", write_npy(right[:3]))])
        await compare(app)
        assert "The shapes differ: [5, 7] here, [3, 7] there" in panel(browser)
        await act(app, "unexpect")
        await compare(app)
        assert browser.text["status"] == "Compared: no mismatches"

    drive(script, GPU, Recording())


def test_on_numpy_there_is_nothing_to_compare_but_expected_outputs() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "view", "name": "compare"})
        assert "there is nothing to compare" in panel(browser)
        await compare(app)
        assert "Nothing to compare" in panel(browser)
        assert "Nothing to compare" in browser.text["status"]
        wrong = write_npy(np.zeros((37, 41), np.float32))
        await act(app, "expected", files=[File("y.npy", wrong)])
        await compare(app)
        assert "1 of 1 output not as expected" in panel(browser)

    drive(script)


def test_what_was_found_is_of_its_inputs_and_its_program() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app, three_calls())
        await compare(app)
        assert "All 3 calls on WebGPU match NumPy" in panel(browser)
        assert "Drift over" not in browser.html["view-compare"], "there is none at all"
        assert "Inputs changed" not in panel(browser)
        await app.receive({"act": "fill", "input": "0", "value": "zeros"})
        assert "Inputs changed" in panel(browser)
        await run(app)
        await act(app, "expected", files=[File("y.npy", write_npy(np.zeros(SHAPE, np.float32)))])
        await drop(app, File("other.pte", three_calls()))
        await app.receive({"act": "view", "name": "compare"})
        assert "Found" not in panel(browser)
        assert "y.npy" not in panel(browser)

    drive(script, GPU, Recording())


def test_expected_files_find_their_outputs() -> None:
    def content(*names: str) -> bytes:
        stream = io.BytesIO()
        arrays: dict[str, Any] = {name: np.full(2, i) for i, name in enumerate(names)}
        np.savez(stream, **arrays)
        return stream.getvalue()

    def found(name: str, data: bytes) -> list[tuple[str, int]]:
        outputs = ["output0", "output1", "output2"]
        return [(one.output, int(one.array[0])) for one in assign([(name, data)], outputs)]

    in_order = [("output0", 0), ("output1", 1), ("output2", 2)]
    assert found("a.npz", content("x", "y", "z")) == in_order
    assert found("a.npz", content("output2", "x", "y")) == [
        ("output0", 1), ("output1", 2), ("output2", 0)
    ]  # fmt: skip
    assert found("expected_output1.npy", write_npy(np.full(2, 7))) == [("output1", 7)]
    with pytest.raises(NpyError, match="which output is this for"):
        found("x.npy", write_npy(np.zeros(2)))
    with pytest.raises(NpyError, match="outputs are numbers"):
        found("output0.npy", write_npy(np.array(["a"])))


def test_one_wrong_element_of_many_stays_on_the_map() -> None:
    wanted = np.zeros((2, 600, 1000), np.float32)
    actual = wanted.copy()
    actual[1, 599, 501] = 3
    plane = plane_of(actual, wanted, (1, 599, 501))
    assert plane is not None
    assert plane.worst == (599, 501)
    blocks, step = pooled(plane.gaps)
    assert (blocks.shape, step) == ((200, 250), (3, 4))
    assert blocks[199, 125] == blocks.max() == 3
    assert np.count_nonzero(blocks) == 1
    folded = plane_of(actual[:1, :1, :], wanted[:1, :1, :], (0, 0, 501))
    assert folded is not None
    assert folded.worst == (501 // 32, 501 % 32)
