"""Tuning on the page: a quiet offer, in the background, dismissed for good."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from page.app import App
from page.sections.tune import controller as tune_controller
from page.sections.tune.view import tune_offer, tuning_seconds
from support.page.fake_page import GPU, Engine, FakeBrowser, drive, open_sample, run
from webpte import Program
from webpte.errors import DeviceError

OFFER = "This GPU has not been measured yet"


class TuningEngine(Engine):
    """An engine that tunes until `ready`, or until it is cancelled."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self.cancelled, self.tuned, self.fails = 0, list[Any](), failure

    async def tune(self, program: Any, *, progress: Any, rest: float) -> Any:
        assert rest > 0  # others come between
        progress("tune", 2, 7)
        try:
            await self.ready.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fails is not None:
            raise self.fails
        self.tuned.append(program)
        rows = [SimpleNamespace(default="a", chosen=chosen) for chosen in ("a", "b", "c")]
        return SimpleNamespace(rows=rows)


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that have run can be tuned, and nobody has."""

    def has_run(program: Program) -> bool:
        return program.stats.executions > 0

    monkeypatch.setattr(tune_controller, "_is_unmeasured", lambda info: True)
    monkeypatch.setattr(tune_controller, "can_tune_now", has_run)
    monkeypatch.setattr(Program, "needs_tuning", property(has_run))


def line(browser: FakeBrowser) -> str:
    return browser.html.get("run-tune", "")


async def commands(app: App, browser: FakeBrowser) -> list[str]:
    """Open the palette, and return the titles of its rows."""
    await app.receive({"act": "palette"})
    return [str(row["title"]) for row in browser.other["commands"]]


@pytest.mark.usefixtures("unmeasured")
def test_it_is_offered_after_a_run_and_done_in_the_background() -> None:
    engine = TuningEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "tune"})  # nothing has run yet: nothing is timed
        assert not line(browser)
        await run(app)
        assert OFFER in line(browser)
        assert "(about " in line(browser)
        assert "Tune kernels" in await commands(app, browser)
        tuning = app.receive({"act": "tune"})
        again = app.receive({"act": "tune"})
        await asyncio.sleep(0.1)
        assert "2 of 7" in line(browser)
        assert "Stop tuning" in await commands(app, browser)
        await run(app)  # goes on meanwhile
        assert browser.text["status"].startswith("Done")
        assert "2 of 7" in line(browser)
        engine.ready.set()
        await tuning
        await again
        assert engine.tuned == engine.programs
        assert browser.text["status"] == "Tuned: 2 of 3 kernels have faster tiles now"
        assert not line(browser)
        await open_sample(app, "add.pte")
        await run(app)
        assert not line(browser)  # this GPU was measured

    drive(script, GPU, engine)


@pytest.mark.usefixtures("unmeasured")
def test_a_dismissed_offer_does_not_come_back() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        await app.receive({"act": "dismiss-tuning"})
        assert not line(browser)
        kept = browser.other["store"]
        assert kept["text"] == '"dismissed"'
        await run(app)
        assert not line(browser)
        assert "Tune kernels" in await commands(app, browser)
        await app.receive({"act": "hello", "stored": {kept["key"]: kept["text"]}})
        await open_sample(app)
        await run(app)
        assert not line(browser)

    drive(script, GPU, TuningEngine())


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("act", ["stop-tuning", "close"])
def test_it_ends_when_it_is_stopped_or_the_program_closed(act: str) -> None:
    engine = TuningEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        tuning = app.receive({"act": "tune"})
        await asyncio.sleep(0.1)
        await app.receive({"act": act})
        await tuning
        assert engine.cancelled == 1
        assert "error" not in browser.html or not browser.html["error"]
        assert (OFFER in line(browser)) == (act == "stop-tuning")

    drive(script, GPU, engine)


@pytest.mark.usefixtures("unmeasured")
def test_a_failure_is_told_and_tuning_can_be_tried_again() -> None:
    engine = TuningEngine(DeviceError("the GPU refused"))
    engine.ready.set()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        await app.receive({"act": "tune"})
        assert "the GPU refused" in browser.html["error"]
        assert "Nothing changed" in browser.html["error"]
        assert OFFER in line(browser)
        engine.fails = None
        await app.receive({"act": "tune"})
        assert engine.tuned == engine.programs

    drive(script, GPU, engine)


def test_nothing_is_offered_on_numpy() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        assert not line(browser)
        assert "Tune kernels" not in await commands(app, browser)
        await app.receive({"act": "tune"})

    drive(script, engine=TuningEngine())


def test_the_time_is_estimated_from_the_runs_so_far() -> None:
    assert tuning_seconds(None, None, 0.2) is None
    assert tuning_seconds(120.0, 20.0, 0.2) == 4  # 7 of 7 runs, 7 times compiled, 7 rests
    assert tuning_seconds(20.0, 20.0, 0.0) == 1
    assert "about 4 s" in tune_offer(4)
    assert "about" not in tune_offer(None)
