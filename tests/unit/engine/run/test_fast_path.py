"""Calls that repeat the last call with other arrays: steps left out, and overlapping calls."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.devices.recorded import ones
from support.graphs.graphs import chain, load, make_delegate, wait
from support.graphs.turns import lookup
from webpte import errors
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest


class Echo(SimulatedDevice):
    """A device that returns each payload once it is told to, and fails for a NaN in it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[asyncio.Future[bytes]] = []

    def run(self, run: PlanRun) -> Any:
        super().run(run).close()  # type: ignore[attr-defined]
        taken = run.payload.tobytes()

        async def later() -> bytes:
            told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self.waiting.append(told)
            await told
            if np.isnan(np.frombuffer(taken, np.float32)).any():
                raise errors.DeviceError("not a number")
            return taken

        return later()

    async def tell(self, *numbers: int) -> None:
        for number in numbers:
            if not self.waiting[number].done():
                self.waiting[number].set_result(b"")
        for _ in range(5):
            await asyncio.sleep(0)


def resizings(delegate: GpuDelegate, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with each call that is looked at for changes of shapes."""
    seen: list[None] = []
    looked = delegate.planner.propagate_resize

    def look() -> None:
        seen.append(None)
        looked()

    monkeypatch.setattr(delegate.planner, "propagate_resize", look)
    return seen


def test_only_what_is_new_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        delegate, device = await make_delegate(chain(2, dims=(8,)))
        seen = resizings(delegate, monkeypatch)
        for value, shape, looks in ((1, 8, 0), (2, 8, 0), (3, 5, 1), (4, 5, 1), (5, 8, 2)):
            before = device.interop_calls
            (y,) = await delegate.run(RunRequest([np.full(shape, value, np.float32)]))
            assert (y.shape, len(seen)) == ((shape,), looks)
            assert shape == 5 or device.interop_calls - before == 1
        assert delegate.executions == 5
        assert set(delegate.times.last_ms) == {"prepare", "submit", "wait"}
        with pytest.raises(errors.ResizeError):
            await delegate.run(RunRequest([ones(9)]))
        assert (await delegate.run(RunRequest([ones(8)])))[0].shape == (8,)
        assert len(seen) == 2, "what failed has changed nothing"

    wait(run())


def test_calls_overlap_and_each_has_its_own_end() -> None:
    async def run() -> None:
        device = Echo()
        program = await load(chain(1), device=device)
        given = [np.full(4, value, np.float32) for value in (0, 1, np.nan, 3, 4)]
        calls = [asyncio.ensure_future(program.forward(x)) for x in given]
        await asyncio.sleep(0)
        await device.tell()
        assert len(device.waiting) == 5, "all are with the GPU before the first has ended"
        calls[3].cancel()
        await device.tell(4, 2, 1)
        assert [call.done() for call in calls] == [False, True, True, True, True]
        program.close()
        with pytest.raises(errors.ClosedError):
            await program.forward(given[0])
        await device.tell(0)
        ended = await asyncio.gather(*calls, return_exceptions=True)
        for number in (0, 1, 4):
            np.testing.assert_array_equal(ended[number][0], given[number])  # type: ignore[index]
        assert isinstance(ended[2], errors.DeviceError)
        assert "not a number" in str(ended[2])
        assert isinstance(ended[3], asyncio.CancelledError)

    wait(run())


def test_numbers_that_do_not_fit_are_refused_as_in_a_first_call() -> None:
    async def run() -> None:
        program = await load(chain(1, dtype="int32"), device=SimulatedDevice())
        messages = []
        for _ in range(2):
            with pytest.raises(errors.InputError) as caught:
                await program.forward(np.full(4, 2**40))
            messages.append(str(caught.value))
            await program.forward(np.zeros(4, np.int32))
        assert messages[0] == messages[1]

    wait(run())


@pytest.mark.parametrize("computed", [False, True])
def test_indices_are_checked_and_nothing_else(
    computed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only given indices can be checked first: calls with computed ones take no fast path."""

    async def run() -> None:
        delegate, device = await make_delegate(lookup(4, computed=computed))
        seen = resizings(delegate, monkeypatch)
        sign = -1 if computed else 1
        for rows in ([1, 2, 3, 0], [9, 0, 0, 1]):
            (y,) = await delegate.run(RunRequest([sign * np.array(rows, np.int32)]))
            assert y[:, 0].tolist() == rows
        runs = len([name for name, *_ in device.log if name == "run"])
        messages = []
        for _ in range(2):
            with pytest.raises(errors.IndexRangeError) as caught:
                await delegate.run(RunRequest([sign * np.array([0, 10, 0, 0], np.int32)]))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        after = len([name for name, *_ in device.log if name == "run"])
        assert after - runs == (2 if computed else 0), "what is given is checked before it goes"
        (y,) = await delegate.run(RunRequest([sign * np.array([4, 4, 4, 5], np.int32)]))
        assert y[:, 0].tolist() == [4, 4, 4, 5]
        assert len(seen) == (5 if computed else 0)

    wait(run())
