"""Calls report their progress, and let other tasks run while they compute."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.devices.recorded import add_graph, ones
from support.graphs.graphs import chain, load, wait
from webpte.engine.call.call import reporting
from webpte.engine.files.download import Progress
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run import numpy_delegate


def test_a_call_tells_of_the_kernels_that_it_compiles() -> None:
    async def run() -> None:
        calls: dict[str, list[tuple[str, int, int]]] = {"first": [], "again": []}

        def to(name: str) -> Progress:
            return lambda *told: calls[name].append(told)

        device = SimulatedDevice()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        device.pipelines.clear()  # as if the shapes to come needed others
        await program.run("forward", ones(5, 3), ones(5, 3), progress=to("first"))
        await program.run("forward", ones(5, 3), ones(5, 3), progress=to("again"))
        device.pipelines.clear()
        await program.run("forward", ones(2, 3), ones(2, 3))
        assert calls == {"first": [("compile", 0, 1), ("compile", 1, 1)], "again": []}
        program.close()

    wait(run())


def test_whoever_has_asked_hears_of_calls_that_tell_nobody_else() -> None:
    async def run() -> None:
        outer: list[tuple[str, int, int]] = []
        inner: list[tuple[str, int, int]] = []
        device = SimulatedDevice()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        with reporting(lambda *told: outer.append(told)):
            for rows, tell in ((5, None), (4, lambda *told: inner.append(told))):
                device.pipelines.clear()
                await program.run("forward", ones(rows, 3), ones(rows, 3), progress=tell)
        assert outer == inner == [("compile", 0, 1), ("compile", 1, 1)]
        program.close()

    wait(run())


def test_numpy_lets_others_in_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_delegate, "_TURN_SECONDS", -1)

    async def run() -> None:
        program = await load(chain(5), device="numpy")
        going = asyncio.ensure_future(program.forward(ones(4)))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not going.done()
        going.cancel()
        ended: list[Any] = await asyncio.gather(going, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError)
        (first,), (second,) = await asyncio.gather(
            program.forward(ones(4)), program.forward(ones(4))
        )
        np.testing.assert_array_equal(first, second)
        program.close()

    wait(run())


def test_short_runs_on_numpy_let_others_in() -> None:
    """Runs that never wait by themselves do not keep the event loop for themselves."""

    async def run() -> None:
        async def work() -> None:
            while True:
                await program.forward(ones(4))

        program = await load(chain(2), device="numpy")
        going = asyncio.ensure_future(work())
        await asyncio.sleep(0)  # it runs until it lets others in
        assert not going.done()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        program.close()

    wait(run())
