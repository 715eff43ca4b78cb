"""Openings: the page stays as it is until the new program is complete."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from page.app import App
from page.core.engine import PageEngine
from page.shared.npy import read_npy, write_npy
from support.page.fake_page import (
    GPU,
    SAMPLES,
    STATE,
    Engine,
    FakeBrowser,
    File,
    benchmark,
    drive,
    drop,
    open_file,
    open_sample,
    run,
)
from webpte import errors

SIGMOID = (SAMPLES / "sigmoid.pte").read_bytes()
BROKEN = {
    "text": b"not a program at all",
    "cut": SIGMOID[:600],
    "empty": b"",
    "unsupported": SIGMOID.replace(b"aten.sigmoid", b"aten.sigmund"),
    "foreign": SIGMOID.replace(b"VulkanBackend", b"XnnpackBacken"),
}
FAILURES = {
    "constants": errors.ConstantError("tensor 3 has its bytes in a .ptd file"),
    "compile": errors.ShaderError("conv2d: unexpected token"),
    "memory": errors.OutOfMemoryError("4 GiB"),
    "bug": KeyError("x"),
}


async def prepare(app: App, browser: FakeBrowser) -> dict[str, str]:
    """Open and run add.pte with an input from a file, and return the page's contents."""
    await open_sample(app, "add.pte")
    x = np.ones((37, 41), np.float32)
    await app.receive({"act": "npy", "input": "1", "files": [File("mine.npy", write_npy(x))]})
    await run(app)
    return shown(browser)


def shown(browser: FakeBrowser) -> dict[str, str]:
    sections = ("file", "inputs", "input-1", "run-controls", "timing", "outputs")
    return {name: browser.html[name] for name in sections} | {"hidden": str(browser.hidden)}


async def outputs(app: App, browser: FakeBrowser) -> np.ndarray:
    await app.receive({"act": "download", "output": "0"})
    return read_npy(browser.links[-1])


def test_what_was_opened_takes_its_place_in_one_step() -> None:
    """Otherwise a slow page shows one half before the other."""

    async def script(app: App, browser: FakeBrowser) -> None:
        for name in ("add.pte", "sigmoid.pte"):
            await open_sample(app, name)
            browser.frames = [frame for frame in browser.frames if "file" in frame]
            (frame,) = browser.frames
            assert frame >= {"progress", "file", "inputs", "run-controls", "outputs"}
            browser.frames.clear()
        await app.receive({"act": "close"})
        assert next(frame for frame in browser.frames if "file" in frame) >= {"file", "inputs"}

    drive(script)


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_file_that_cannot_be_read_changes_nothing(data: bytes) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        before = await prepare(app, browser)
        y = await outputs(app, browser)
        await drop(app, File("<b>other.pte", data))
        assert shown(browser) == before
        assert "open &lt;b&gt;other.pte" in browser.html["error"]
        assert "error-hint" in browser.html["error"]
        assert "add.pte is still open" in browser.html["error"]
        assert browser.html["progress"] == ""
        await app.receive({"act": "dismiss"})
        assert browser.html["error"] == ""
        await run(app)
        assert browser.text["status"].startswith("Done")
        assert (await outputs(app, browser) == y).all()

    drive(script)


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_program_that_cannot_be_built_changes_nothing(failure: Exception) -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        before = await prepare(app, browser)
        engine.failure = failure
        await open_sample(app, "superres.pte")
        assert shown(browser) == before
        assert type(failure).__name__ in browser.html["error"]
        assert "open superres.pte" in browser.html["error"]
        assert browser.html["error"].count("error-hint") >= 1
        assert ("error in webpte" in browser.html["error"]) == isinstance(failure, KeyError)
        engine.failure = None
        await run(app)
        assert browser.text["status"].startswith("Done")
        assert engine.closed == []

    drive(script, engine=engine)


def test_an_address_that_does_not_answer_changes_nothing() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        before = await prepare(app, browser)
        await app.receive({"act": "open-url", "fields": {"url": "nowhere.pte"}})
        assert shown(browser) == before
        assert "404" in browser.html["error"]

    drive(script)


def test_too_little_memory_names_what_can_be_closed() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        engine.failure = errors.OutOfMemoryError("4 GiB")
        await open_sample(app)
        assert "Close it first" in browser.html["error"]

    drive(script, engine=engine)


def test_what_cannot_run_is_listed_with_the_error() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await prepare(app, browser)
        await drop(app, File("other.pte", BROKEN["unsupported"]))
        assert "sigmund" in browser.html["error"]
        assert "not supported" in browser.html["error"]
        assert "add.pte" in browser.html["file"]

    drive(script)


def test_the_old_program_works_while_the_new_one_loads() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await prepare(app, browser)
        engine.gate = asyncio.Event()
        opening = app.receive({"act": "open-url", "fields": {"url": "samples/sigmoid.pte"}})
        await asyncio.sleep(0.05)
        assert "add.pte" in browser.html["file"]
        assert "sigmoid.pte" in browser.html["progress"]
        await run(app)
        assert browser.text["status"].startswith("Done")
        engine.gate.set()
        await opening
        assert "sigmoid.pte" in browser.html["file"]
        assert browser.html["outputs"] == browser.html["progress"] == ""
        assert engine.closed == engine.programs[:1]

    drive(script, engine=engine)


def test_an_opening_can_be_cancelled() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        before = await prepare(app, browser)
        engine.gate = asyncio.Event()
        opening = app.receive({"act": "open-url", "fields": {"url": "samples/sigmoid.pte"}})
        await asyncio.sleep(0.05)
        assert 'data-act="cancel-opening"' in browser.html["progress"]
        await app.receive({"act": "cancel-opening"})
        assert browser.html["progress"] == ""
        engine.gate.set()
        await opening
        assert shown(browser) == before
        assert browser.html["progress"] == ""
        assert engine.closed == engine.programs[1:]  # what came too late is not kept

    drive(script, engine=engine)


def test_closing_while_another_file_loads() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await prepare(app, browser)
        engine.gate = asyncio.Event()
        opening = app.receive({"act": "open-url", "fields": {"url": "samples/sigmoid.pte"}})
        await asyncio.sleep(0.05)
        await app.receive({"act": "close"})
        assert engine.closed == engine.programs
        assert browser.html["file"] == browser.html["inputs"] == browser.html["outputs"] == ""
        engine.gate.set()
        await opening
        assert "sigmoid.pte" in browser.html["file"]
        assert browser.hidden == {"welcome": True, "about": False, "run": False, "figures": False}

    drive(script, engine=engine)


def test_a_new_version_of_the_file_keeps_the_inputs() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await prepare(app, browser)
        await open_sample(app, "add.pte")
        assert "from mine.npy" in browser.html["inputs"]
        assert browser.html["outputs"] == ""
        await open_sample(app, "sigmoid.pte")
        assert "mine.npy" not in browser.html["inputs"]

    drive(script)


def test_another_device_keeps_inputs_and_marks_results() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await prepare(app, browser)
        y = await outputs(app, browser)
        await app.receive({"act": "device", "value": "numpy"})
        assert engine.devices == ["webgpu", "numpy"]
        assert "from mine.npy" in browser.html["inputs"]
        assert "Computed on WebGPU" in browser.html["outputs-age"]
        assert (await outputs(app, browser) == y).all()
        await run(app)
        assert browser.html["outputs-age"] == ""
        assert (await outputs(app, browser) == y).all()

    drive(script, GPU, engine)


def test_a_device_that_fails_leaves_the_old_one() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        before = await prepare(app, browser)
        engine.failure = errors.OutOfMemoryError("too large")
        await app.receive({"act": "device", "value": "numpy"})
        assert "OutOfMemoryError" in browser.html["error"]
        assert shown(browser) == before  # "on" says WebGPU again
        engine.failure = None
        await run(app)
        assert browser.text["status"].startswith("Done")
        await open_sample(app)
        assert engine.devices == ["webgpu", "numpy", "webgpu"]

    drive(script, GPU, engine)


def test_methods_keep_their_inputs_and_results() -> None:
    x = np.array([3, 4], np.float32)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await app.receive({"act": "npy", "input": "0", "files": [File("x.npy", write_npy(x))]})
        await benchmark(app, 3)
        assert (await outputs(app, browser)).tolist() == [9, 16]
        await app.receive({"act": "method", "name": "get"})
        assert "median of 3" not in browser.html["timing"]
        assert "takes no inputs" in browser.html["inputs"]
        assert browser.html["outputs"] == ""
        await app.receive({"act": "method", "name": "put"})
        # The same name, type and shape: the values go along.
        assert "from x.npy" in browser.html["inputs"]
        await app.receive({"act": "fill", "input": "0", "value": "ones"})
        await app.receive({"act": "method", "name": "forward"})
        assert "from x.npy" in browser.html["inputs"]
        assert (await outputs(app, browser)).tolist() == [9, 16]
        assert browser.html["outputs-age"] == ""
        assert "median of 3" in browser.html["timing"]
        await app.receive({"act": "method", "name": "put"})
        assert "from x.npy" not in browser.html["inputs"]
        await app.receive({"act": "method", "name": "nothing"})
        assert "no method" in browser.html["error"]

    drive(script)


def test_constants_go_to_the_program_that_lacks_them() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        engine.failure = errors.ConstantError("no bytes")
        await drop(app, File("m.pte", SIGMOID))
        assert ".ptd" in browser.html["error"]
        engine.failure = None
        await drop(app, File("m.ptd", b"constants"))
        assert engine.data == [b"constants"]
        assert "open m.pte" in browser.html["error"]  # those are no constants

    drive(script, engine=engine)


def test_constants_are_not_for_a_program_that_failed_for_another_reason() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await drop(app, File("cut.pte", SIGMOID[:600]))
        assert "open cut.pte" in browser.html["error"]
        loaded, session = engine.data, app._state.session
        await drop(app, File("m.ptd", b"constants"))
        # add.pte could be loaded without any: it is not loaded again.
        assert app._state.session is session
        assert engine.data == loaded
        assert browser.text["status"].startswith("The .ptd file was not used: add.pte has all")

    drive(script, engine=engine)


def test_two_programs_at_once_are_refused() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("a.pte", SIGMOID), File("b.pte", SIGMOID))
        assert "a.pte" in browser.html["error"]
        assert "b.pte" in browser.html["error"]
        assert "file" not in browser.html

    drive(script)


def test_what_is_opened_early_waits_for_the_adapter() -> None:
    """A click before Python has started, without WebGPU, runs on NumPy."""

    async def script() -> None:
        browser = FakeBrowser("no adapter")
        browser.asked = asyncio.Event()
        app = App(browser, PageEngine())
        hello = app.receive({"act": "hello"})
        opening = app.receive({"act": "open-url", "fields": {"url": "samples/sigmoid.pte"}})
        await asyncio.sleep(0.05)
        browser.asked.set()
        await asyncio.gather(hello, opening)
        assert browser.html.get("error", "") == ""
        assert "loaded in" in browser.text["status"]

    asyncio.run(script())
