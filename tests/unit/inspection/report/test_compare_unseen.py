"""A comparison changes neither state nor memory, also if it fails."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.devices.recorded import ones
from support.graphs.compared import several, stateful
from support.graphs.graphs import load, wait
from support.harness.inspecting import APART
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice


@pytest.mark.parametrize("make", [stateful, several])
def test_whatever_fails_state_and_memory_are_as_before(make: Any) -> None:
    """Inject a fault at every call of the device in turn."""

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(make(), device=device, **APART)
        (first,) = await program.forward(ones(4))
        await program.compare("forward", ones(4))  # allocates what later comparisons reuse
        counts, failed = device.counts(), 0
        for after in range(1, 200):
            device.inject(after=after)
            try:
                await program.compare("forward", ones(4))
            except errors.WebpteError as error:
                assert "injected" in str(error)  # noqa: PT017
                failed += 1
            else:
                break
            assert device.counts() == counts
        assert failed > 5
        device._injected.clear()
        (second,) = await program.forward(ones(4))
        fresh = await load(make(), device=SimulatedDevice(), **APART)
        np.testing.assert_array_equal((await fresh.forward(ones(4)))[0], first)
        np.testing.assert_array_equal((await fresh.forward(ones(4)))[0], second)

    wait(run())


@pytest.mark.parametrize("make", [stateful, several])
def test_cancelled_anywhere(make: Any) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(make(), device=device, **APART)
        await program.forward(ones(4))
        await program.compare("forward", ones(4))
        counts, cancelled = device.counts(), 0
        for turns in range(60):
            task = asyncio.ensure_future(program.compare("forward", ones(4)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                cancelled += 1
            assert device.counts() == counts
        assert cancelled > 10
        fresh = await load(make(), device=SimulatedDevice(), **APART)
        await fresh.forward(ones(4))
        (expected,), (got,) = await fresh.forward(ones(4)), await program.forward(ones(4))
        np.testing.assert_array_equal(got, expected)

    wait(run())


def test_closed_or_lost_meanwhile() -> None:
    async def run() -> None:
        for turns in range(30):
            device = SimulatedDevice()
            program = await load(several(), device=device, **APART)
            task = asyncio.ensure_future(program.compare("forward", ones(4)))
            for _ in range(turns):
                await asyncio.sleep(0)
            program.close()
            try:
                found = await task
            except errors.ClosedError:
                found = None
            assert found is None or found.agrees
            assert device.counts()["buffers"] == device.counts()["plans"] == 0
        with pytest.raises(errors.ClosedError):
            await program.compare("forward", ones(4))
        device = SimulatedDevice()
        program = await load(several(), device=device, **APART)
        device.inject(errors.DeviceLostError, method="run")
        with pytest.raises(errors.WebpteError, match="injected"):
            await program.compare("forward", ones(4))
        await program.recover(SimulatedDevice())
        assert (await program.compare("forward", ones(4))).agrees

    wait(run())


def test_between_calls_that_are_under_way() -> None:
    async def run() -> None:
        for make in (stateful, several):
            program = await load(make(), device=SimulatedDevice(), **APART)
            fresh = await load(make(), device=SimulatedDevice(), **APART)
            expected = [(await fresh.forward(ones(4)))[0] for _ in range(2)]
            first, one, other, second = await asyncio.gather(
                program.forward(ones(4)),
                program.compare("forward", ones(4), expected=[expected[1]]),
                program.compare("forward", 3 * ones(4)),
                program.forward(ones(4)),
            )
            np.testing.assert_array_equal([first[0], second[0]], expected)
            assert one.agrees
            assert other.agrees

    wait(run())


def test_on_numpy_state_stays_as_well() -> None:
    async def run() -> None:
        for make in (stateful, several):
            program, fresh = await load(make()), await load(make())
            await program.compare("forward", ones(4))
            for _ in range(2):
                (got,), (expected,) = await program.forward(ones(4)), await fresh.forward(ones(4))
                np.testing.assert_array_equal(got, expected)

    wait(run())
