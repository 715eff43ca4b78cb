"""Long runs in slices: a cancelled one leaves the GPU, and nothing else is different."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import chain, make_delegate, read_graph, remembering, wait
from webpte.engine.files.detached import detach
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import OutputPlacement
from webpte.engine.run.request import RunRequest
from webpte.engine.run.slices import FIRST_WORKGROUPS, LONG_MS, SLICE_MS, Pace, Workgroups

COUNT = 6  # of calls
X = np.array([1, -2, 3, -4], np.float32)


class Slow(SimulatedDevice):
    """A device whose runs end when `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        running = detach(super().run(run))  # it goes on when its caller is cancelled

        async def later() -> bytes:
            await self.gate.wait()
            return await running

        return later()


def slices_of(device: SimulatedDevice) -> list[Any]:
    """Return the slice of each run so far."""
    return [run.slice for name, run in device.log if name == "run"]  # type: ignore[attr-defined]


def expect_long(delegate: GpuDelegate, ms: float = LONG_MS) -> None:
    """Let each call take so long."""
    delegate.queue.pace.measured(1, ms)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_a_long_run_comes_in_slices_and_has_the_same_result() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(chain(COUNT))
        (short,) = await delegate.run(RunRequest([X]))
        assert slices_of(device) == [None]
        expect_long(delegate)
        delegate.queue.pace.measured = lambda workgroups, ms: None  # type: ignore[method-assign]
        (sliced,) = await delegate.run(RunRequest([X]))
        assert slices_of(device)[1:] == [(at, at + 1) for at in range(COUNT)]
        np.testing.assert_array_equal(sliced, short)
        (kept,) = await delegate.run(RunRequest([X], OutputPlacement.OWNED))
        np.testing.assert_array_equal(await kept.numpy(), short)
        before = len(slices_of(device))
        (again,) = await delegate.run(RunRequest([kept]))  # copied before the first slice
        assert len(slices_of(device)) == before + COUNT
        np.testing.assert_array_equal(again, (await delegate.run(RunRequest([short])))[0])

    wait(run())


def test_a_run_that_turns_out_short_is_not_divided_further() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(chain(COUNT))
        expect_long(delegate)
        await delegate.run(RunRequest([X]))
        assert slices_of(device) == [(0, 1), (1, COUNT)]
        await delegate.run(RunRequest([X]))
        assert slices_of(device)[2:] == [None]

    wait(run())


@pytest.mark.parametrize("done", range(COUNT))
def test_a_cancelled_run_leaves_the_rest_out(done: int) -> None:
    async def run() -> None:
        device = Slow()
        delegate, _ = await make_delegate(chain(COUNT), device)
        (wanted,) = await delegate.run(RunRequest([X]))
        expect_long(delegate)
        delegate.queue.pace.measured = lambda workgroups, ms: None  # type: ignore[method-assign]
        start = len(slices_of(device))
        task = asyncio.ensure_future(delegate.run(RunRequest([2 * X])))
        while len(slices_of(device)) < start + done:
            await asyncio.sleep(0)
        device.gate.clear()
        await settle()
        submitted = slices_of(device)[start:]
        assert len(submitted) <= done + 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        device.gate.set()
        await settle()
        assert slices_of(device)[start:] == submitted
        (after,) = await delegate.run(RunRequest([X]))
        np.testing.assert_array_equal(after, wanted)

    wait(run())


def test_runs_of_a_delegate_come_one_after_the_other() -> None:
    async def run() -> None:
        delegate, _ = await make_delegate(chain(COUNT), Slow())
        expect_long(delegate)
        delegate.queue.pace.measured = lambda workgroups, ms: None  # type: ignore[method-assign]
        runs = [delegate.run(RunRequest([X * at])) for at in range(3)]
        results = [result for (result,) in await asyncio.gather(*runs)]
        for at, result in enumerate(results):
            (alone,) = await delegate.run(RunRequest([X * at]))
            np.testing.assert_array_equal(result, alone)

    wait(run())


def test_a_program_with_state_is_one_submission() -> None:
    """A slice that ran would have changed the state of a cancelled call."""

    graph = read_graph(remembering())

    async def run() -> None:
        delegate, device = await make_delegate(graph)
        expect_long(delegate)
        await delegate.run(RunRequest([np.ones((1, 1, 1, 2), np.float32), np.array([0])]))
        assert slices_of(device) == [None]

    wait(run())


def test_slices_end_with_calls_and_are_everything() -> None:
    calls = [0, 0, 0, 1, 2, 2, 3]
    work = Workgroups([(2, 2, 1)] * len(calls), calls)
    assert work.count == 28
    for wanted in (0.5, 4, 9, 20, 1e9):
        first = 0
        while first < len(calls):
            end = work.end_of(first, wanted)
            assert first < end
            assert end == len(calls) or calls[end - 1] != calls[end]
            first = end
        assert first == len(calls)
    assert work.end_of(0, 1e9) == len(calls)
    assert work.left(0) == 28
    assert work.left(4) == 12


def test_what_is_long_is_measured() -> None:
    pace = Pace()
    assert not pace.is_long(FIRST_WORKGROUPS)
    assert pace.is_long(10 * FIRST_WORKGROUPS)  # nobody knows: the first of them will tell
    pace.measured(1000, 1)
    assert not pace.is_long(10 * FIRST_WORKGROUPS)
    pace.measured(1000, 2 * LONG_MS)
    assert pace.is_long(1000)
    work = Workgroups([(100, 1, 1)] * 10, range(10))
    assert pace.end_of_slice(work, 0) == SLICE_MS * 1000 // (2 * LONG_MS) // 100
    pace.measured(10, 4)  # mostly the wait for it: not slower than before
    assert not pace.is_long(400)
