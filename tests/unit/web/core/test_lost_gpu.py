"""A lost GPU: the page rebuilds the program by itself, and goes on with repeatable work."""

from __future__ import annotations

from typing import Any

from page.app import App
from page.core.state import MOST_LOSSES
from support.graphs.graphs import remembering
from support.page.fake_page import GPU, Engine, FakeBrowser, File, drive, drop, open_sample, run
from webpte.errors import DeviceLostError, NoWebGPUError


class LosingEngine(Engine):
    """An engine whose programs lose the GPU in their first runs."""

    def __init__(self, losses: int) -> None:
        super().__init__()
        self.losses = losses
        self.runs = 0

    async def load(self, source: Any, **options: Any) -> Any:
        program = await super().load(source, **options)
        right = program.run

        async def losing(*given: Any, **how: Any) -> Any:
            self.runs += 1
            if self.losses > 0:
                self.losses -= 1
                raise DeviceLostError("running: the browser took the GPU away")
            return await right(*given, **how)

        program.run = losing
        return program


def test_a_run_is_done_again_on_a_new_gpu() -> None:
    engine = LosingEngine(1)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        assert engine.programs[0].generation == 1
        assert engine.runs == 2
        assert not browser.html["error"]
        assert "output0" in browser.html["outputs"]
        assert browser.text["status"].startswith("Done")
        engine.losses = MOST_LOSSES  # counted anew after a run that succeeded
        await run(app)
        assert not browser.html["error"]

    drive(script, GPU, engine)


def test_a_gpu_that_is_lost_again_and_again_is_an_error() -> None:
    engine = LosingEngine(100)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        assert engine.runs == MOST_LOSSES + 1
        assert engine.programs[0].generation == MOST_LOSSES
        assert "Rebuild the program" in browser.html["error"]
        engine.losses = 0
        await app.receive({"act": "recover"})
        assert not browser.html["error"]
        await run(app)
        assert "output0" in browser.html["outputs"]

    drive(script, GPU, engine)


def test_without_a_new_gpu_the_error_says_so() -> None:
    engine = LosingEngine(1)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)

        async def nothing(**options: Any) -> None:
            raise NoWebGPUError("this browser offers no WebGPU adapter")

        engine.programs[0].recover = nothing
        await run(app)
        assert "no WebGPU adapter" in browser.html["error"]
        assert "Rebuild the program" in browser.html["error"]
        assert engine.runs == 1

    drive(script, GPU, engine)


def test_a_program_with_state_is_rebuilt_but_not_run() -> None:
    engine = LosingEngine(1)

    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("remembering.pte", remembering()))
        await run(app)
        assert engine.runs == 1
        assert engine.programs[0].generation == 1
        assert not browser.html["error"]
        assert "its state was reset: run it again" in browser.text["status"]

    drive(script, GPU, engine)
