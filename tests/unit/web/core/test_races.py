"""Concurrent actions: one waits or is refused with a message; nothing is half done."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import numpy as np
import pytest

from page.app import App
from page.shared.npy import write_npy
from support.harness import extent
from support.page.fake_page import (
    GPU,
    STATE,
    Engine,
    FakeBrowser,
    File,
    benchmark,
    drive,
    open_file,
    open_sample,
    run,
)


class SlowEngine(Engine):
    """An engine whose runs wait at a gate, once a gate is set."""

    def __init__(self) -> None:
        super().__init__()
        self.at_run: asyncio.Event | None = None
        self.running = 0
        self.most_running = 0
        self.used_after_close = False

    async def load(self, source: Any, **options: Any) -> Any:
        program = await super().load(source, **options)
        works = program.run

        async def run(*args: Any, **more: Any) -> Any:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            if self.at_run is not None:
                await self.at_run.wait()
            self.used_after_close |= program in self.closed
            try:
                return await works(*args, **more)
            finally:
                self.running -= 1

        program.run = run
        return program


async def start(app: App, engine: SlowEngine) -> asyncio.Task[None]:
    """Start a run that waits at the gate."""
    engine.at_run = asyncio.Event()
    running = app.receive({"act": "benchmark", "fields": {"repeats": "3"}})
    await asyncio.sleep(0.01)
    assert engine.running == 1
    return running


def test_a_double_click_runs_once() -> None:
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = await start(app, engine)
        await app.receive({"act": "benchmark", "fields": {"repeats": "3"}})
        assert "Still" in browser.text["status"]
        assert engine.at_run is not None
        engine.at_run.set()
        await running
        assert engine.programs[0].stats.executions == 4
        assert engine.most_running == 1
        assert browser.text["status"].startswith("Benchmark: ")
        assert "stopped early" not in browser.text["status"]

    drive(script, engine=engine)


def test_run_stays_under_the_pointer_while_it_runs() -> None:
    """The second click of a double click must not land on a button that took its place."""
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = await start(app, engine)
        controls = browser.html["run-controls"]
        assert controls.index(">Run<") < controls.index('data-act="cancel"')
        assert engine.at_run is not None
        engine.at_run.set()
        await running
        assert 'data-act="cancel"' not in browser.html["run-controls"]

    drive(script, engine=engine)


@pytest.mark.parametrize("act", ["check", "profile", "recover"])
def test_what_needs_the_program_is_refused_while_it_runs(act: str) -> None:
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        running = await start(app, engine)
        await app.receive({"act": act})
        assert "Still" in browser.text["status"]
        assert engine.at_run is not None
        engine.at_run.set()
        await running
        assert engine.most_running == 1
        assert browser.text["status"].startswith("Benchmark: ")

    drive(script, GPU, engine)


def test_closing_ends_the_run_first() -> None:
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = await start(app, engine)
        closing = [app.receive({"act": "close"}) for _ in range(2)]
        another = app.receive({"act": "run"})
        assert engine.closed == []
        await asyncio.wait_for(asyncio.gather(running, another, *closing), 5)
        assert engine.closed == engine.programs
        assert not engine.used_after_close
        assert engine.programs[0].stats.executions == 0
        assert browser.html["outputs"] == browser.html["run-controls"] == ""
        assert browser.html["error"] == ""
        assert browser.text["status"] == "Closed"

    drive(script, engine=engine)


def test_opening_ends_the_run_before_it_takes_over() -> None:
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = await start(app, engine)
        assert "sigmoid.pte" in browser.html["file"]
        opening = app.receive({"act": "open-url", "fields": {"url": "samples/add.pte"}})
        await asyncio.wait_for(asyncio.gather(running, opening), 5)
        assert not engine.used_after_close
        assert "add.pte" in browser.html["file"]
        assert browser.html["outputs"] == ""
        assert browser.html["error"] == ""

    drive(script, engine=engine)


def test_a_method_chosen_while_another_runs() -> None:
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        running = await start(app, engine)
        chosen = [
            app.receive({"act": "method", "name": "get"}),
            app.receive({"act": "method", "name": "put"}),
        ]
        await asyncio.sleep(0.01)
        assert engine.at_run is not None
        engine.at_run.set()
        await asyncio.wait_for(asyncio.gather(running, *chosen), 5)
        assert "put" in browser.html["file"]
        assert browser.html["outputs"] == ""
        await app.receive({"act": "method", "name": "forward"})
        assert "output0" in browser.html["outputs"]  # of the run that was under way
        assert browser.html["error"] == ""

    drive(script, engine=engine)


def test_closed_while_a_run_waits_to_be_stopped_by_an_opening() -> None:
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = await start(app, engine)
        acts = [
            app.receive({"act": "open-url", "fields": {"url": "samples/add.pte"}}),
            app.receive({"act": "device", "value": "numpy"}),
            app.receive({"act": "close"}),
            app.receive({"act": "open-url", "fields": {"url": "samples/superres.pte"}}),
        ]
        await asyncio.sleep(0.05)
        assert engine.at_run is not None
        engine.at_run.set()
        await asyncio.wait_for(asyncio.gather(running, *acts), 5)
        assert "superres.pte" in browser.html["file"]
        assert len(engine.programs) == len(engine.closed) + 1
        assert not engine.used_after_close
        engine.at_run = None
        await run(app)
        assert browser.text["status"].startswith("Done")

    drive(script, GPU, engine)


def test_a_check_can_be_cancelled() -> None:
    engine = SlowEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await benchmark(app, 50)
        await run(app)
        engine.at_run = asyncio.Event()
        checking = app.receive({"act": "check"})
        await asyncio.sleep(0.05)
        await app.receive({"act": "cancel"})
        engine.at_run.set()
        await asyncio.wait_for(checking, 5)
        assert "not compared" in browser.text["status"]
        assert "output-0-compare" not in browser.html
        assert engine.closed == engine.programs[1:]

    drive(script, GPU, engine)


ACTS: list[dict[str, Any]] = [
    {"act": "benchmark", "fields": {"repeats": "3"}},
    {"act": "benchmark", "fields": {"repeats": "30"}},
    {"act": "run"},
    {"act": "live"},
    {"act": "cancel"},
    {"act": "check"},
    {"act": "recover"},
    {"act": "close"},
    {"act": "cancel-opening"},
    {"act": "open-url", "fields": {"url": "samples/add.pte"}},
    {"act": "open-url", "fields": {"url": "samples/none.pte"}},
    {"act": "open-file", "files": [File("m.pte", (STATE / "shared.pte").read_bytes())]},
    {"act": "open-file", "files": [File("x.npy", write_npy(np.ones(2, np.float32)))]},
    {"act": "open-file", "files": [File("bad.pte", b"bad")]},
    {"act": "device", "value": "numpy"},
    {"act": "device", "value": "webgpu"},
    {"act": "method", "name": "forward"},
    {"act": "fill", "input": "0", "value": "ones"},
    {"act": "dismiss"},
    {"act": "retry"},
]
TOLD_ERRORS = {"SourceError", "OtherFileError", "NpyError", "ValueError"}  # that ACTS can lead to


@pytest.mark.parametrize("seed", range(extent.count(16, 40)))
def test_anything_at_any_time(seed: int) -> None:
    """Send messages at random times: one program is open, used by one task at a time, and never
    after its end."""
    engine = SlowEngine()
    choose = random.Random(seed)

    async def script(app: App, browser: FakeBrowser) -> None:
        tasks = []
        for _ in range(40):
            tasks.append(app.receive(choose.choice(ACTS)))
            for _ in range(choose.choice([0, 0, 1, 5, 40])):
                await asyncio.sleep(0)
            told = re.findall(r"\n(?:[\w.]+\.)?(\w+Error)\b", browser.html.get("error", ""))
            assert not told or told[-1] in TOLD_ERRORS, browser.html["error"]
            assert engine.most_running <= 1
        await asyncio.wait_for(asyncio.gather(*tasks), 20)
        assert browser.html["progress"] == ""
        await open_sample(app)
        await run(app)
        assert browser.text["status"].startswith("Done")
        await app.receive({"act": "check"})
        assert browser.text["status"] == "All outputs match NumPy"
        await app.receive({"act": "close"})
        assert len(engine.closed) == len(engine.programs)
        assert not engine.used_after_close

    drive(script, GPU, engine)
