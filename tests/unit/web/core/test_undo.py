"""Undo: closed programs and cleared inputs come back, until something takes their place."""

from __future__ import annotations

import re

import numpy as np

from page.app import App
from page.shared.npy import read_npy, write_npy
from support.page.fake_page import (
    GPU,
    SAMPLES,
    Engine,
    FakeBrowser,
    File,
    drive,
    open_file,
    open_sample,
    run,
)

DIGITS = "digits.pte"


def toast(browser: FakeBrowser) -> str:
    return re.sub("<[^>]*>", " ", browser.html.get("toast", ""))


async def undo(app: App) -> None:
    await app.receive({"act": "undo"})


async def output(app: App, browser: FakeBrowser) -> np.ndarray:
    await app.receive({"act": "download", "output": "0"})
    return read_npy(browser.links[-1])


def test_a_closed_program_comes_back_with_inputs_results_and_view() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        mine = np.full((37, 41), 3, np.float32)
        await app.receive(
            {"act": "npy", "input": "1", "files": [File("mine.npy", write_npy(mine))]}
        )
        await app.receive({"act": "device", "value": "numpy"})
        await run(app)
        before = await output(app, browser)
        await app.receive({"act": "view", "name": "python"})
        await app.receive({"act": "close"})
        assert engine.closed == engine.programs
        assert "Closed add.pte." in toast(browser)
        assert browser.other["rescue"] == "undo"  # the button that closed it is gone
        await undo(app)
        assert toast(browser) == ""
        assert "from mine.npy" in browser.html["inputs"]
        assert app._state.session is not None
        assert app._state.session.device == "numpy"
        assert browser.other["front"] == "python"
        np.testing.assert_array_equal(await output(app, browser), before)
        await run(app)
        assert not browser.html["error"]
        await undo(app)  # there is nothing more: a second click does nothing
        assert len(engine.programs) - len(engine.closed) == 1

    drive(script, GPU, engine)


def test_another_program_ends_the_offer() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "close"})
        await open_sample(app, "add.pte")
        assert toast(browser) == ""
        await undo(app)
        assert "add.pte" in browser.html["file"]

    drive(script)


def test_an_offer_that_is_dismissed_is_gone() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "close"})
        await app.receive({"act": "forget-undo"})
        assert toast(browser) == ""
        await undo(app)
        assert browser.html["file"] == ""

    drive(script)


def test_inputs_that_were_reset_come_back() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "reset-inputs"})
        assert toast(browser) == ""  # nobody had set anything
        mine = np.full((37, 41), 3, np.float32)
        await app.receive(
            {"act": "npy", "input": "0", "files": [File("mine.npy", write_npy(mine))]}
        )
        await app.receive({"act": "reset-inputs"})
        assert "mine.npy" not in browser.html["inputs"]
        assert "Inputs reset." in toast(browser)
        await undo(app)
        assert "from mine.npy" in browser.html["inputs"]
        await run(app)
        np.testing.assert_allclose(await output(app, browser), 1 / (1 + np.exp(-mine)), atol=1e-5)

    drive(script)


def test_a_drawing_comes_back_to_its_pad() -> None:
    drawing = np.zeros((28, 28), np.uint8)
    drawing[4:20, 9:12] = 255

    def painted(browser: FakeBrowser) -> np.ndarray:
        pixels = browser.other.pop("paint")["input-0-pad"]
        return np.frombuffer(pixels["grey"], np.uint8).reshape(pixels["rows"], pixels["columns"])

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, DIGITS)
        await app.receive({"act": "fill", "input": "0", "value": "draw"})
        pixels = {"rows": 28, "columns": 28, "pixels": drawing.tobytes()}
        await app.receive({"act": "draw", "input": "0", **pixels})
        await run(app)
        for clear in ("clear-drawing", "reset-inputs", "close"):
            await app.receive({"act": clear, "input": "0"})
            await undo(app)
            np.testing.assert_array_equal(painted(browser), drawing)
            assert app._state.session is not None
            (state,) = app._state.session.inputs
            held = np.asarray(state.array())
            assert np.count_nonzero(held) == np.count_nonzero(drawing)
            assert app._state.session.age() == []  # the results fit the drawing

    drive(script)


def test_a_file_that_is_gone_is_told() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, SAMPLES / "sigmoid.pte")
        await app.receive({"act": "close"})
        engine.failure = OSError("the file is gone")
        await undo(app)
        assert "the file is gone" in browser.html["error"]

    drive(script, engine=engine)
