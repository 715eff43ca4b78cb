"""Live runs: an answer follows every change of an input, one at a time, the newest inputs last."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from page.app import App
from page.core.engine import PageEngine
from page.shared.npy import write_npy
from support.page.fake_page import STATE, Engine, FakeBrowser, File, drive, open_file, open_sample
from webpte.errors import InputError


class CountingEngine(Engine):
    """Programs that count their runs; a run waits for `gate`, or fails if its input is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[float] = []  # the first element of each run's input
        self.running = self.most_running = self.cancelled = 0
        self.ready: asyncio.Event | None = None

    async def load(self, source: Any, **options: Any) -> Any:
        program = await super().load(source, **options)
        run = program.run

        async def counted(method: str, *arrays: Any, **more: Any) -> Any:
            self.inputs.append(float(np.asarray(arrays[0]).flat[0]))
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            try:
                if self.ready is not None:
                    await self.ready.wait()
                if self.inputs[-1] < 0:
                    raise InputError("negative")
                return await run(method, *arrays, **more)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            finally:
                self.running -= 1

        program.run = counted
        return program


async def give(app: App, value: float) -> None:
    data = write_npy(np.full((37, 41), value, np.float32))
    await app.receive({"act": "npy", "input": "0", "files": [File("x.npy", data)]})


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_an_input_that_changes_is_answered() -> None:
    engine = CountingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await settle()
        assert engine.inputs == []  # nobody has asked for anything
        assert browser.text["outputs-none"] == "Press Run (Ctrl Enter), or change an input."
        await app.receive({"act": "live"})
        assert browser.text["outputs-none"] == "Press Run (Ctrl Enter)."
        await app.receive({"act": "live"})
        await give(app, 1)
        await settle()
        assert engine.inputs == [1]
        assert "Done in " in browser.text["status"]
        assert browser.html["outputs-age"] == ""
        await app.receive({"act": "renderer", "output": "0", "renderer": "table"})
        await settle()
        assert engine.inputs == [1]  # how it is shown changes no input

    drive(script, engine=engine)


def test_only_the_newest_inputs_follow_a_run() -> None:
    engine = CountingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        engine.ready = asyncio.Event()
        for value in (1, 2, 3, 4):
            await give(app, value)
            await settle()
        assert engine.inputs == [1]
        engine.ready.set()
        await settle()
        assert engine.inputs == [1, 4]
        assert engine.most_running == 1
        assert engine.cancelled == 0

    drive(script, engine=engine)


def test_run_comes_after_a_live_run() -> None:
    engine = CountingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        engine.ready = asyncio.Event()
        await give(app, 1)
        await settle()
        running = app.receive({"act": "run"})
        await settle()
        engine.ready.set()
        await running
        assert engine.inputs == [1, 1]
        assert engine.most_running == 1

    drive(script, engine=engine)


def test_the_same_error_is_shown_once() -> None:
    engine = CountingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await give(app, -1)
        await settle()
        assert "negative" in browser.html["error"]
        await app.receive({"act": "dismiss"})
        await give(app, -2)
        await settle()
        assert engine.inputs == [-1, -2]
        assert browser.html["error"] == ""
        assert browser.text["status"] == "Same error again"
        await give(app, 3)
        await settle()
        assert "Done" in browser.text["status"]

    drive(script, engine=engine)


def test_live_runs_can_be_switched_off_and_stay_off() -> None:
    engine = CountingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "live"})
        kept = browser.other["store"]
        await give(app, 1)
        await settle()
        assert engine.inputs == []
        await app.receive({"act": "run"})
        assert engine.inputs == [1]
        again = App(browser, PageEngine())
        await again.receive({"act": "hello", "stored": {kept["key"]: kept["text"]}})
        await open_sample(again)
        assert "checked" not in browser.html["run-controls"]
        await again.receive({"act": "live"})
        assert "checked" in browser.html["run-controls"]

    drive(script, engine=engine)


def test_a_program_with_state_does_not_run_by_itself() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "separate.pte")
        assert 'data-act="live"' not in browser.html["run-controls"]
        await app.receive({"act": "fill", "input": "0", "value": "ones"})
        await settle()
        assert browser.html.get("outputs", "") == ""

    drive(script)


def test_an_empty_pad_is_not_answered() -> None:
    engine = CountingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "digits.pte")
        await app.receive({"act": "fill", "input": "0", "value": "draw"})
        await settle()
        assert engine.inputs == []
        grey = np.zeros((28, 28), np.uint8)
        grey[4:20, 9:12] = 255
        await app.receive({"act": "draw", "input": "0", "rows": 28, "columns": 28,
                           "pixels": grey.tobytes()})  # fmt: skip
        await settle()
        assert len(engine.inputs) == 1

    drive(script, engine=engine)


def test_a_live_run_that_takes_long_says_so_in_the_status_line() -> None:
    engine = CountingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        engine.ready = asyncio.Event()
        await give(app, 1)
        await asyncio.sleep(0.5)
        assert (browser.text["status"], browser.other["mood"]) == ("Running", "busy")
        engine.ready.set()
        await settle()
        assert "Done in " in browser.text["status"]

    drive(script, engine=engine)
