"""The simulated device that other tests rely on: strict, with real memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.devices.recorded import NO_PAYLOAD, NO_PLAN, add_graph, ones, two_buffers, words
from support.graphs.graphs import make_delegate, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.files.source import BytesSource, Region
from webpte.engine.gpu.device import GpuCopy, PlanCommands, PlanRun, Readback, Transfer, Upload
from webpte.engine.gpu.simulated.device import FALLIBLE, SimulatedDevice
from webpte.engine.run.request import RunRequest
from webpte.errors import (
    ConstantError,
    DeviceError,
    DeviceLostError,
    IndexRangeError,
    OutOfMemoryError,
)

# Memory and time


def test_results_are_as_of_the_submission() -> None:
    """Work is done in the order in which it was submitted, whichever result is awaited first."""

    async def run() -> None:
        device = SimulatedDevice()
        source, target, spare = await device.create_buffers([8, 8, 8])
        plan = await device.create_plan(
            PlanCommands((Upload(source, 4, 8),), (), (Readback(target, 8, 8),), 16, (spare,))
        )
        device.write(spare, 0, words(5, 5))
        first = device.read(spare, 8)
        payload = words(0, 1, 2).view(np.uint8)
        ran = device.run(PlanRun(plan, payload, [GpuCopy(source, target, 4)]))
        kept = device.run(PlanRun(plan, payload, copies_after=[GpuCopy(source, target, 8)]))
        payload[:] = 9
        device.write(target, 0, words(7))
        last = device.read(target, 8)
        device.destroy_buffers([source, target])
        assert await last == words(7, 2).tobytes()
        assert await ran == words(0, 0, 1, 0).tobytes()
        assert await kept == words(0, 0, 1, 2).tobytes(), "copied before it was read back"
        assert await first == words(5, 5).tobytes()
        assert await device.read(spare, 8) == bytes(8), "set to zero by the run"

    wait(run())


def test_every_await_suspends() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> None:
        nonlocal turns
        device = SimulatedDevice(features=("timestamp-query",))
        (buffer,) = await device.create_buffers([4])
        plan = await device.create_plan(NO_PLAN)
        counting = asyncio.ensure_future(count())
        await asyncio.sleep(0)
        region = Region(BytesSource(b"abcd"), 0, 4)
        for call in (
            lambda: device.create_buffers([4]),
            lambda: device.create_pipelines([]),
            lambda: device.create_plan(NO_PLAN),
            lambda: device.transfer([Transfer(region, buffer, None)]),
            lambda: device.transfer([]),
            lambda: device.read(buffer, 4),
            lambda: device.run(PlanRun(plan, NO_PAYLOAD)),
            lambda: device.run(PlanRun(plan, NO_PAYLOAD, read=False)),
            lambda: device.profile(PlanRun(plan, NO_PAYLOAD)),
        ):
            for pauses in (None, lambda: 0, lambda: 5):
                device.pauses = pauses
                before = turns
                await call()
                assert turns - before >= (5 if pauses and pauses() else 1)
        counting.cancel()

    wait(run())


@pytest.mark.parametrize(
    ("dtype", "convert", "stored"),
    [
        ("float16", "float16", "float32"),
        ("float64", "float64", "float32"),
        ("int64", "int64", "int32"),
        ("int8", None, "int8"),
    ],
)
def test_constants_are_stored_as_the_gpu_does(dtype: str, convert: str, stored: str) -> None:
    values = np.array([1, -2, 3], dtype)

    async def run() -> None:
        device = SimulatedDevice()
        (buffer,) = await device.create_buffers([16])
        region = Region(BytesSource(values.tobytes()), 0, values.nbytes)
        await device.transfer([Transfer(region, buffer, convert)])
        assert await device.read(buffer, 16) == values.astype(stored).tobytes().ljust(16, b"\0")
        assert device.contents == {buffer: values.tobytes()}
        large = Region(BytesSource(np.array([2**40], np.int64).tobytes()), 0, 8)
        with pytest.raises(ConstantError, match="does not fit into 32 bits"):
            await device.transfer([Transfer(large, buffer, "int64")])
        long = Region(BytesSource(bytes(20)), 0, 20)
        with pytest.raises(DeviceError, match="bytes 0 to 20 of a buffer of 16"):
            await device.transfer([Transfer(long, buffer, None)])

    wait(run())


def test_constants_are_not_moved_to_a_device_that_was_lost_meanwhile() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        (buffer,) = await device.create_buffers([4])
        region = Region(BytesSource(b"abcd"), 0, 4)
        moving = asyncio.ensure_future(device.transfer([Transfer(region, buffer, None)]))
        await asyncio.sleep(0)
        device.lost = True
        with pytest.raises(DeviceLostError, match="while constants were uploaded"):
            await moving
        assert device.contents == {}

    wait(run())


def test_a_bad_index_leaves_its_number_and_zeros() -> None:
    g = GraphWriter()
    table = g.prepack(g.tensor((3, 2), constant=np.arange(6, dtype=np.float32)))
    x = g.tensor((2,), "int32")
    index = g.op("aten.neg.default", x, g.tensor((2,), "int32"))
    g.inputs(x)
    g.outputs(g.op("aten.embedding.default", table, index, g.tensor((2, 2))))

    async def run() -> None:
        delegate, device = await make_delegate(g)
        ((plan, commands),) = device.plans.items()
        (fault,) = commands.dispatches[-1].origin.faults  # type: ignore[union-attr]
        result = await device.run(PlanRun(plan, words(0, 4, 0, 0).view(np.uint8)))
        assert np.frombuffer(result, np.int32).tolist() == [0] * 4 + [fault[0], 0, 0, 0]
        result = await device.run(PlanRun(plan, words(0, -1, 0, 0).view(np.uint8)))
        assert np.frombuffer(result, np.float32)[:4].tolist() == [0, 1, 2, 3]
        assert np.frombuffer(result, np.int32)[4] == 0, "every run of a plan starts without it"
        with pytest.raises(IndexRangeError):
            await delegate.run(RunRequest([words(-4, 0)]))
        await delegate.run(RunRequest([words(0, 0)]))

    wait(run())


# Injected faults


@pytest.mark.parametrize("at_result", [False, True])
@pytest.mark.parametrize("method", FALLIBLE)
def test_a_call_fails_when_it_is_told_to(method: str, at_result: bool) -> None:
    async def run() -> None:
        device = SimulatedDevice(features=("timestamp-query",))
        first, second = await two_buffers(device)
        plan = await device.create_plan(NO_PLAN)
        before = device.counts()
        calls: dict[str, Callable[[], Any]] = {
            "create_buffers": lambda: device.create_buffers([4]),
            "create_pipelines": lambda: device.create_pipelines([]),
            "create_plan": lambda: device.create_plan(NO_PLAN),
            "transfer": lambda: device.transfer([]),
            "write": lambda: device.write(first, 0, words(1)),
            "read": lambda: device.read(first, 4),
            "run": lambda: device.run(PlanRun(plan, NO_PAYLOAD, [GpuCopy(first, second, 4)])),
            "profile": lambda: device.profile(
                PlanRun(plan, NO_PAYLOAD, [GpuCopy(first, second, 4)])
            ),
            "copy": lambda: device.copy([GpuCopy(first, second, 4)]),
        }

        async def call(name: str) -> None:
            result = calls[name]()
            if result is not None:
                await result

        device.inject(OutOfMemoryError, after=2, method=method, at_result=at_result)
        await call(method)
        device.memory[second].write(words(9))
        with pytest.raises(OutOfMemoryError, match="injected"):
            await call(method)
        assert await device.read(second, 4) == words(9).tobytes(), "nothing was done"
        await call(method)
        if not method.startswith("create"):
            assert device.counts() == before
        device.inject(DeviceLostError, after=2, at_result=at_result)
        pending = device.read(first, 4)
        with pytest.raises(DeviceLostError):
            await call(method)
        assert device.lost
        with pytest.raises(DeviceLostError):
            await pending
        for name in calls:
            with pytest.raises(DeviceLostError):
                await call(name)
        device.destroy_plan(plan)
        device.destroy_buffers([first, second])

    wait(run())


def test_nothing_stays_of_what_was_cancelled() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        for work in (device.create_buffers([4]), device.create_plan(NO_PLAN)):
            task = asyncio.ensure_future(work)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (len(device.buffers), len(device.plans)) == (0, 0)

    wait(run())


def test_without_a_clock_nothing_is_timed() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        plan = await device.create_plan(NO_PLAN)
        with pytest.raises(DeviceError, match="no timestamps"):
            device.profile(PlanRun(plan, NO_PAYLOAD))

    wait(run())


def test_a_profile_is_a_run_with_times() -> None:
    async def run() -> None:
        device = SimulatedDevice(features=("timestamp-query",))
        await make_delegate(add_graph((4,)), device)
        (plan,) = device.plans
        payload = np.concatenate([ones(4), ones(4)]).view(np.uint8)
        result, times = await device.profile(PlanRun(plan, payload))
        assert result == await device.run(PlanRun(plan, payload))
        assert np.frombuffer(result, np.float32).tolist() == [2] * 4
        assert len(times) == 1

    wait(run())
