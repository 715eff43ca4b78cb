"""The whole page on the NumPy device, with a fake browser that records."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

import webpte
from page.app import App
from page.shared.npy import read_npy, write_npy
from support.harness.virtual_time import until
from support.page.fake_page import (
    SAMPLES,
    Engine,
    FakeBrowser,
    File,
    benchmark,
    drive,
    open_sample,
    run,
)
from webpte import DeviceInfo


def test_start_without_webgpu() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        assert "No GPU available" in browser.html["gpu"]
        assert browser.other["state"] == "ready"
        assert browser.text["status"] == "Ready"

    drive(script)


def test_start_with_webgpu() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        assert "SwiftShader" in browser.html["gpu"]

    drive(script, DeviceInfo("webgpu", "google", "swiftshader", software=True))


def test_open_run_and_read() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        assert "sigmoid" in browser.html["file"]
        assert browser.hidden == {"welcome": True, "about": False, "run": False, "figures": False}
        assert browser.html["progress"] == ""
        assert "loaded in" in browser.text["status"]
        await benchmark(app, 5)
        assert "median of 5" in browser.text["status"]
        assert "37 × 41" in browser.html["outputs"]
        assert "executions</dt><dd>6" in browser.html["stats"]
        await app.receive({"act": "copy", "output": "0"})
        copied = np.array(json.loads(browser.other["copy"]["text"]), np.float32)
        await app.receive({"act": "download", "output": "0"})
        assert browser.other["download"] == {"url": "blob:1", "name": "output0.npy"}
        assert (read_npy(browser.links[0]) == copied).all()

    drive(script)


def test_inputs_from_files_reach_the_program() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        x = np.linspace(-4, 4, 37 * 41, dtype=np.float32).reshape(37, 41)
        file = File("x.npy", write_npy(x))
        await app.receive({"act": "npy", "input": "0", "files": [file]})
        assert "from x.npy" in browser.html["input-0"]
        await run(app)
        await app.receive({"act": "download", "output": "0"})
        assert read_npy(browser.links[0]) == pytest.approx(1 / (1 + np.exp(-x)), abs=1e-6)
        expected = File("y.npy", write_npy((1 / (1 + np.exp(-x))).astype(np.float32)))
        await app.receive({"act": "compare", "output": "0", "files": [expected]})
        assert "Matches y.npy" in browser.html["output-0-compare"]
        await app.receive({"act": "compare", "output": "0", "files": [file]})
        assert "Differs from x.npy" in browser.html["output-0-compare"]
        await app.receive({"act": "compare", "output": "0", "files": [File("<b>.npy", b"")]})
        assert "&lt;b&gt;.npy is not a .npy" in browser.html["output-0-compare"]

    drive(script)


def test_a_file_that_does_not_fit_blocks_the_run_until_something_else_is_chosen() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        file = File("x.npy", write_npy(np.zeros((3, 3), np.float32)))
        await app.receive({"act": "npy", "input": "0", "files": [file]})
        assert "dimension 0 is 3" in browser.html["input-0-preview"]
        await run(app)
        assert "not ready" in browser.text["status"]
        assert browser.html["outputs"] == ""
        await app.receive({"act": "fill", "input": "0", "value": "ramp"})
        await run(app)
        assert browser.text["status"].startswith("Done")

    drive(script)


def test_a_broken_file_is_told_and_the_page_goes_on() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-file", "files": [File("no.pte", b"not a program" * 9)]})
        told = browser.html["error"].partition("<details")[0]
        assert told.count("no.pte") == 1
        assert "OtherFileError" in browser.html["error"]
        assert not browser.hidden.get("welcome")
        await open_sample(app)
        assert browser.html["error"] == ""
        await run(app)
        assert browser.text["status"].startswith("Done")

    drive(script)


def test_a_missing_address_is_told() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-url", "fields": {"url": " nowhere.pte "}})
        assert "404" in browser.html["error"]
        told = "nowhere.pte cannot be opened: there is no such file at its address (404)"
        assert browser.text["status"] == told
        await app.receive({"act": "dismiss"})
        assert browser.html["error"] == ""

    drive(script)


def test_a_ptd_alone_is_told() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-file", "files": [File("w.ptd", b"")]})
        assert "choose its .pte together with it" in browser.html["error"]

    drive(script)


def test_ptd_files_go_with_their_program() -> None:
    engine = Engine()
    program = (SAMPLES / "sigmoid.pte").read_bytes()

    async def script(app: App, browser: FakeBrowser) -> None:
        both = [File("w.PTD", b"constants"), File("m.pte", program)]
        await app.receive({"act": "open-file", "files": both})
        assert engine.data == [b"constants"]
        assert "open m.pte" in browser.html["error"]  # those are no constants
        await app.receive({"act": "open-file", "files": both[1:]})
        assert "m.pte loaded" in browser.text["status"]

    drive(script, engine=engine)


def test_a_ptd_replaces_one_that_failed() -> None:
    engine = Engine()
    program = (SAMPLES / "sigmoid.pte").read_bytes()

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive(
            {"act": "open-file", "files": [File("w.ptd", b"cut"), File("m.pte", program)]}
        )
        await app.receive({"act": "open-file", "files": [File("w.ptd", b"whole")]})
        assert engine.data == [b"whole"]

    drive(script, engine=engine)


def test_the_contents_are_shown_even_if_the_program_cannot_run() -> None:
    engine = Engine()
    engine.failure = webpte.errors.UnsupportedOpError("m", {"aten.x": 2})

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        assert "UnsupportedOpError" in browser.html["error"]
        assert "What is in sigmoid.pte" in browser.html["error"]
        assert "37 × 41" in browser.html["error"]
        await run(app)
        assert "outputs" not in browser.html

    drive(script, engine=engine)


def test_the_earlier_program_is_closed() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await open_sample(app, "add.pte")
        assert engine.closed == engine.programs[:1]
        await app.receive({"act": "close"})
        assert engine.closed == engine.programs
        assert browser.html["file"] == ""
        assert browser.hidden["welcome"] is False

    drive(script, engine=engine)


def test_the_newest_opening_wins() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        engine.gate = asyncio.Event()
        first = app.receive({"act": "open-url", "fields": {"url": "samples/sigmoid.pte"}})
        await asyncio.sleep(0.05)
        second = app.receive({"act": "open-url", "fields": {"url": "samples/add.pte"}})
        await asyncio.sleep(0.05)
        engine.gate.set()
        await asyncio.gather(first, second)
        assert "add.pte" in browser.html["file"]
        assert len(engine.programs) == 1, "the earlier opening ended at once"
        assert engine.closed == []
        await run(app)
        assert browser.text["status"].startswith("Done")

    drive(script, engine=engine)


def test_repeats_can_be_cancelled() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = app.receive({"act": "benchmark", "fields": {"repeats": "10000"}})
        second = app.receive({"act": "run"})  # does not start
        await until(lambda: 'data-act="cancel"' in browser.html["run-controls"])
        assert second.done()
        await until(lambda: "median of" in browser.html["timing"])
        await app.receive({"act": "cancel"})
        await asyncio.wait_for(running, 5)
        assert "stopped early" in browser.text["status"]
        assert 'data-act="cancel"' not in browser.html["run-controls"]
        assert browser.html["outputs-age"] == ""  # outputs still fit the inputs

    drive(script)


def test_opening_ends_a_run() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = app.receive({"act": "benchmark", "fields": {"repeats": "10000"}})
        await until(lambda: 'data-act="cancel"' in browser.html["run-controls"])
        await asyncio.wait_for(open_sample(app, "add.pte"), 5)
        assert running.done()
        assert "add.pte" in browser.html["file"]
        assert browser.html["outputs"] == ""

    drive(script)


def test_check_against_numpy() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await run(app)
        await app.receive({"act": "check"})
        assert "Matches NumPy" in browser.html["output-0-compare"]

    drive(script)


def test_controls_of_an_input() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "reroll", "input": "0"})
        first = browser.html["input-0-preview"]
        await app.receive({"act": "reroll", "input": "0"})
        assert browser.html["input-0-preview"] != first
        await app.receive({"act": "fill", "input": "0", "value": "ones"})
        assert "1, 1, 1" in browser.html["input-0"]
        await app.receive({"act": "fill", "input": "0", "value": "file"})
        assert "Choose a .npy, .npz or .bin file" in browser.html["input-0-preview"]

    drive(script)


def test_an_unknown_act_is_told() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "fly"})
        assert "fly" in browser.html["error"]

    drive(script)
