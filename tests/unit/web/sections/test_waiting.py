"""Long runs: their progress is shown, and cancelling takes effect at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from page.app import App
from page.sections.run.waiting import waiting_view
from support.page.fake_page import (
    GPU,
    STATE,
    Engine,
    FakeBrowser,
    benchmark,
    drive,
    open_file,
    open_sample,
    run,
)
from webpte import DeviceInfo
from webpte.engine.call.call import call_progress
from webpte.engine.files.detached import detach
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm.open_program import open_program

SOFTWARE = DeviceInfo("webgpu", "google", "swiftshader", software=True)


class CompilingEngine(Engine):
    """An engine whose first run reports that kernels are compiled, and then waits for `ready`."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self.cancelled = 0

    async def load(self, source: Any, **options: Any) -> Any:
        program = await super().load(source, **options)
        works = program.run

        async def run(*args: Any, **more: Any) -> Any:
            progress = more.pop("progress", None)
            if progress is not None and not self.ready.is_set():
                progress("compile", 3, 12)
                try:
                    await self.ready.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
            return await works(*args, **more)

        program.run = run
        return program


def test_a_run_that_compiles_says_how_far_it_is_and_since_when() -> None:
    engine = CompilingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = app.receive({"act": "run"})
        await asyncio.sleep(0.1)
        assert "run-waiting" not in browser.html  # nothing jumps for a run that is soon over
        await asyncio.sleep(0.5)
        assert "Compiling kernels for new shapes: 3 of 12" in browser.html["run-waiting"]
        assert 'value="3" max="12"' in browser.html["run-waiting"]
        first = browser.html["run-waiting"]
        await asyncio.sleep(0.3)
        assert browser.html["run-waiting"] != first  # the time goes on
        engine.ready.set()
        await running
        assert browser.html["run-waiting"] == ""
        assert browser.text["status"].startswith("Done")

    drive(script, GPU, engine)


def test_a_cancel_frees_the_page_at_once() -> None:
    engine = CompilingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = app.receive({"act": "benchmark", "fields": {"repeats": "5"}})
        await asyncio.sleep(0.5)
        await app.receive({"act": "cancel"})
        await asyncio.wait_for(running, 1)  # though nothing was ready
        assert engine.cancelled == 1
        assert browser.text["status"] == "Benchmark cancelled"
        assert browser.html["run-waiting"] == ""
        assert 'data-act="cancel"' not in browser.html["run-controls"]
        assert browser.html["outputs"] == ""
        engine.ready.set()
        await benchmark(app, 1)
        assert browser.text["status"].startswith("Benchmark: ")
        assert engine.programs[0].stats.executions == 2

    drive(script, GPU, engine)


class BusyGpu(SimulatedDevice):
    """A GPU that computes until `ready` is set, even if the run is cancelled meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        return self._when_ready(detach(super().run(run)))

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        return self._when_ready(detach(super().read(buffer, nbytes)))

    async def _when_ready(self, work: Awaitable[bytes]) -> bytes:
        await self.ready.wait()
        return await work


def test_the_clock_starts_when_the_gpu_is_free_of_a_cancelled_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = BusyGpu()

    class BusyEngine(Engine):
        async def load(self, source: Any, **options: Any) -> Any:
            return await open_program(source, **{**options, "device": device})

    def clock() -> float:
        return asyncio.get_running_loop().time()

    monkeypatch.setattr("page.core.runner.perf_counter", clock)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        first = app.receive({"act": "run"})
        await asyncio.sleep(3)
        await app.receive({"act": "cancel"})
        await first
        assert browser.text["status"] == "Cancelled"
        second = app.receive({"act": "run"})
        await asyncio.sleep(36)
        assert browser.text["status"] == "Waiting for the cancelled run"
        assert "Waiting for the cancelled run · " in browser.html["run-waiting"]
        device.ready.set()
        await second
        session = app._state.session
        assert session is not None
        assert session.runner.timing.last == pytest.approx(0, abs=100)  # it was 36 s
        assert browser.text["status"].startswith("Done in ")
        before = len(device.log)
        await run(app)
        assert [name for name, _ in device.log[before:]] == ["run"]  # there is nothing to wait for

    drive(script, GPU, BusyEngine())


@pytest.mark.parametrize("act", ["close", "open-url"])
def test_what_takes_the_place_of_a_run_does_not_wait_for_it(act: str) -> None:
    engine = CompilingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = app.receive({"act": "benchmark", "fields": {"repeats": "5"}})
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        message = {"act": act, "fields": {"url": "samples/add.pte"}}
        await asyncio.wait_for(app.receive(message), 5)
        assert running.done()
        told = "Closed" if act == "close" else "add.pte loaded"
        assert browser.text["status"].startswith(told)

    drive(script, GPU, engine)


def test_after_a_cancelled_call_nobody_claims_to_know_the_state() -> None:
    engine = CompilingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        running = app.receive({"act": "run"})
        await asyncio.sleep(0.01)
        await app.receive({"act": "cancel"})
        await asyncio.wait_for(running, 1)
        engine.ready.set()
        await run(app)
        await app.receive({"act": "check"})
        assert "a run was cancelled" in browser.html["output-0-compare"]

    drive(script, GPU, engine)


def test_all_work_on_a_program_says_that_kernels_are_compiled() -> None:
    """The status line shows it for every kind of work: a trace, an answer, a lesson."""

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        state, ready = app._state, asyncio.Event()
        session = state.session
        assert session is not None

        async def work() -> None:
            told = call_progress()
            assert told is not None
            told("compile", 0, 12)
            await asyncio.sleep(0)
            assert browser.text["status"] == "Tracing"  # most kernels are there in a moment
            await asyncio.sleep(0.5)
            assert browser.text["status"] == "Tracing: compiling kernels, 0 of 12"
            told("compile", 11, 12)
            state.tell("Stopping", "busy")
            await asyncio.sleep(0.3)
            assert browser.text["status"] == "Stopping: compiling kernels, 11 of 12"
            told("compile", 12, 12)
            assert browser.text["status"] == "Stopping"
            told("compile", 0, 3)
            await asyncio.sleep(0.5)
            assert "0 of 3" in browser.text["status"]
            ready.set()

        state.tell("Tracing", "busy")
        await state.do(session, work(), "tracing")
        assert ready.is_set(), browser.html["error"]
        assert browser.text["status"] == state.status == "Stopping"
        await asyncio.sleep(0.3)
        assert browser.text["status"] == "Stopping"

    drive(script, GPU, Engine())


def test_a_software_adapter_proposes_numpy() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        assert 'data-act="device" data-value="numpy"' in browser.html["run-advice"]
        await app.receive({"act": "device", "value": "numpy"})
        assert browser.html["run-advice"] == ""

    engine = Engine()
    drive(script, SOFTWARE, engine)
    assert engine.devices == ["webgpu", "numpy"]


def test_once_all_is_compiled_it_computes() -> None:
    assert "Computing · " in waiting_view((12, 12), 1500).replace('<span class="number">', "")
    assert "1.50 s" in waiting_view(None, 1500)


def test_the_screen_stays_on_while_a_program_works() -> None:
    engine = CompilingEngine()

    async def script(app: App, browser: FakeBrowser) -> None:
        shown = list[bool]()
        show = browser.show

        def follow(**changes: Any) -> None:
            shown.extend([changes["awake"]] if "awake" in changes else [])
            show(**changes)

        browser.show = follow  # type: ignore[method-assign]
        await open_sample(app)
        assert shown == [True, False]  # it was opened
        running = app.receive({"act": "run"})
        await asyncio.sleep(0.1)  # it waits for `ready`
        assert shown == [True, False, True]
        engine.ready.set()
        await running
        assert shown == [True, False, True, False]

    drive(script, engine=engine)
