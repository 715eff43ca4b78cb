"""The device that other tests rely on: as strict as a GPU, and with the same memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.graphs import make_delegate, wait
from support.pte_writer import GraphWriter
from support.recorded import add_graph, ones
from webpte.errors import (
    ConstantError,
    DeviceError,
    DeviceLostError,
    IndexRangeError,
    OutOfMemoryError,
)
from webpte.gpu.device import (
    DispatchCommand,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    Readback,
    Resource,
    Transfer,
    Upload,
)
from webpte.gpu.recording import FALLIBLE, RecordedBuffer, RecordingDevice
from webpte.source import BytesSource, Region

NO_PAYLOAD = np.zeros(0, np.uint8)
NO_PLAN = PlanCommands((), (), (), 0)


def words(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


async def made_plan() -> tuple[RecordingDevice, PlanCommands]:
    """The commands of x + y on a device that is ready to take more."""
    device = RecordingDevice()
    await make_delegate(add_graph((4,)), device)
    (commands,) = device.plans.values()
    return device, commands


def with_dispatch(commands: PlanCommands, **changes: Any) -> PlanCommands:
    (dispatch,) = commands.dispatches
    return replace(commands, dispatches=(replace(dispatch, **changes),))


# What WebGPU refuses

FREED = 999
PlanEdit = Callable[[PlanCommands], PlanCommands]


def _bound(at: int, **changes: Any) -> PlanEdit:
    def edit(commands: PlanCommands) -> PlanCommands:
        resources = list(commands.dispatches[0].resources)
        resources[at] = replace(resources[at], **changes)
        return with_dispatch(commands, resources=tuple(resources))

    return edit


def _written_is_read(commands: PlanCommands) -> PlanCommands:
    x, _, *rest = commands.dispatches[0].resources
    written = commands.readbacks[0].buffer
    return with_dispatch(commands, resources=(replace(x, buffer=written), x, *rest))


BAD_PLANS: dict[str, tuple[PlanEdit, str]] = {
    "upload to no buffer": (
        lambda c: replace(c, uploads=(Upload(FREED, 0, 4),)),
        "an upload: buffer 999 does not exist",
    ),
    "upload too long": (
        lambda c: replace(c, uploads=(replace(c.uploads[0], nbytes=20),)),
        "bytes 0 to 20 of a buffer of 16",
    ),
    "upload of no words": (
        lambda c: replace(c, uploads=(replace(c.uploads[0], nbytes=6),)),
        "6 bytes are no whole words",
    ),
    "clear of no buffer": (lambda c: replace(c, clears=(FREED,)), "setting to zero: buffer 999"),
    "read-back of no buffer": (
        lambda c: replace(c, readbacks=(Readback(FREED, 16, 0),)),
        "a read-back: buffer 999",
    ),
    "read-back too long": (
        lambda c: replace(c, readbacks=(replace(c.readbacks[0], nbytes=32),)),
        "bytes 0 to 32",
    ),
    "read-back beyond the results": (
        lambda c: replace(c, readbacks=(replace(c.readbacks[0], result_offset=4),)),
        "beyond the 16 bytes of results",
    ),
    "read-back at half a word": (
        lambda c: replace(c, readbacks=(replace(c.readbacks[0], result_offset=2, nbytes=4),)),
        "no whole words",
    ),
    "results of no words": (lambda c: replace(c, result_bytes=18), "the results: 18 bytes"),
    "no pipeline": (lambda c: with_dispatch(c, pipeline=FREED), "pipeline 999"),
    "no origin": (lambda c: with_dispatch(c, origin=None), "no call is known"),
    "too few bindings": (
        lambda c: with_dispatch(c, resources=c.dispatches[0].resources[:-1]),
        "bindings, not",
    ),
    "grid": (lambda c: with_dispatch(c, grid=(65536, 1, 1)), "a grid of"),
    "binding of no buffer": (_bound(0, buffer=FREED), "buffer 999"),
    "binding too long": (_bound(0, nbytes=32), "bytes 0 to 32"),
    "binding of nothing": (_bound(0, nbytes=0), "0 bytes at 0"),
    "uniform between blocks": (_bound(-1, offset=16), "at 16"),
    "read and written": (_written_is_read, "is read and written"),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_plan_that_webgpu_would_refuse(name: str) -> None:
    edit, message = BAD_PLANS[name]

    async def run() -> None:
        device, commands = await made_plan()
        before = device.counts()
        with pytest.raises(DeviceError, match=message):
            await device.create_plan(edit(commands))
        assert device.counts() == before
        await device.create_plan(commands)

    wait(run())


def test_storage_is_not_uniform_and_one_buffer_is_not_written_twice() -> None:
    async def run() -> None:
        device, commands = await made_plan()
        uniform = commands.dispatches[0].resources[-1]
        wrong = _bound(0, buffer=uniform.buffer)(commands)
        with pytest.raises(DeviceError, match="was made for another use"):
            await device.create_plan(wrong)
        spec = PipelineSpec("two", "", ("write", "write"), ())
        (pipeline,) = await device.create_pipelines([spec])
        (buffer,) = await device.create_buffers([16])
        twice = (Resource(buffer, 0, 16),) * 2
        dispatch = DispatchCommand(pipeline, twice, (1, 1, 1), commands.dispatches[0].origin)
        with pytest.raises(DeviceError, match="is written by two bindings"):
            await device.create_plan(replace(NO_PLAN, dispatches=(dispatch,)))

    wait(run())


def test_uniform_blocks_have_a_size_limit() -> None:
    async def run() -> None:
        device, commands = await made_plan()
        (buffer,) = await device.create_buffers([128 * 1024], uniform=True)
        with pytest.raises(DeviceError, match="65792 bytes are too many"):
            await device.create_plan(_bound(-1, buffer=buffer, nbytes=65792)(commands))

    wait(run())


async def _two_buffers(device: RecordingDevice) -> tuple[int, int]:
    first, second = await device.create_buffers([16, 8])
    return first, second


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ((FREED, 2, 4), "buffer 999"),
        ((1, FREED, 4), "buffer 999"),
        ((1, 1, 4), "copied to itself"),
        ((1, 2, 12), "to buffer 2: bytes 0 to 12 of a buffer of 8"),
        ((2, 1, 12), "from buffer 2: bytes 0 to 12 of a buffer of 8"),
        ((1, 2, 6), "no whole words"),
    ],
)
def test_a_copy_that_webgpu_would_refuse(copy: tuple[int, int, int], message: str) -> None:
    async def run() -> None:
        device = RecordingDevice()
        assert await _two_buffers(device) == (1, 2)
        with pytest.raises(DeviceError, match=message):
            device.copy([GpuCopy(*copy)])
        plan = await device.create_plan(NO_PLAN)
        either: list[dict[str, Any]] = [{"copies": [GpuCopy(*copy)]}, {"kept": [GpuCopy(*copy)]}]
        for copies in either:
            with pytest.raises(DeviceError, match=message):
                device.run(plan, NO_PAYLOAD, **copies)
            running = device.run(plan, NO_PAYLOAD, watched=True, **copies)
            with pytest.raises(DeviceError, match=message):
                await running

    wait(run())


def test_reads_writes_and_sizes_keep_to_their_buffer() -> None:
    async def run() -> None:
        device = RecordingDevice()
        first, second = await _two_buffers(device)
        device.destroy_buffers([first])
        for broken, message in (
            (lambda: device.write(second, 0, words(1, 2, 3)), "bytes 0 to 12"),
            (lambda: device.write(second, 2, words(1)), "no whole words"),
            (lambda: device.write(first, 0, words(1)), "does not exist"),
            (lambda: device.read(second, 12), "bytes 0 to 12"),
            (lambda: device.read(second, 2), "no whole words"),
            (lambda: device.read(first, 4), "does not exist"),
            (lambda: device.destroy_buffers([first]), "does not exist"),
            (lambda: device.destroy_buffers([second, second]), "twice"),
            (lambda: device.native_buffer(first), "does not exist"),
            (lambda: device.forget_buffers([second]), "was not adopted"),
            (lambda: device.destroy_plan(7), "plan 7"),
            (lambda: device.run(7, NO_PAYLOAD), "plan 7"),
        ):
            with pytest.raises(DeviceError, match=message):
                broken()
        with pytest.raises(DeviceError, match="no whole words"):
            await device.create_buffers([6])
        assert device.buffers == {second: 8}

    wait(run())


def test_a_plan_outlives_its_buffers_but_does_not_run() -> None:
    async def run() -> None:
        device, commands = await made_plan()
        (plan,) = device.plans
        payload = np.zeros(32, np.uint8)
        with pytest.raises(DeviceError, match="beyond the 31 bytes of the payload"):
            device.run(plan, payload[:31])
        device.destroy_buffers([commands.readbacks[0].buffer])
        with pytest.raises(DeviceError, match=f"running plan {plan}: buffer"):
            device.run(plan, payload)
        device.destroy_plan(plan)
        with pytest.raises(DeviceError, match="not any more"):
            device.run(plan, payload)

    wait(run())


def test_what_another_destroyed_is_this_calls_error() -> None:
    async def run() -> None:
        device = RecordingDevice()
        (target,) = await device.create_buffers([8])
        native = RecordedBuffer(8)
        number, size = device.adopt_buffer(native)
        assert size == 8
        plan = await device.create_plan(NO_PLAN)
        native.destroy()
        running = device.run(plan, NO_PAYLOAD, [GpuCopy(number, target, 8)], watched=True)
        with pytest.raises(DeviceError, match="destroyed by its maker"):
            await running
        with pytest.raises(DeviceError, match="its maker destroyed"):
            await device.read(number, 8)
        device.forget_buffers([number])
        assert device.counts() == {"buffers": 1, "plans": 1, "adopted": 0, "pipelines": 0}

    wait(run())


# Memory and time


def test_results_are_as_of_the_submission() -> None:
    """Work is done in the order in which it was submitted, whatever is awaited first."""

    async def run() -> None:
        device = RecordingDevice()
        source, target, spare = await device.create_buffers([8, 8, 8])
        plan = await device.create_plan(
            PlanCommands((Upload(source, 4, 8),), (), (Readback(target, 8, 8),), 16, (spare,))
        )
        device.write(spare, 0, words(5, 5))
        first = device.read(spare, 8)
        payload = words(0, 1, 2).view(np.uint8)
        ran = device.run(plan, payload, [GpuCopy(source, target, 4)])
        kept = device.run(plan, payload, kept=[GpuCopy(source, target, 8)])
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
        device = RecordingDevice(features=("timestamp-query",))
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
            lambda: device.run(plan, NO_PAYLOAD),
            lambda: device.run(plan, NO_PAYLOAD, read=False),
            lambda: device.profile(plan, NO_PAYLOAD),
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
        device = RecordingDevice()
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
        device = RecordingDevice()
        (buffer,) = await device.create_buffers([4])
        region = Region(BytesSource(b"abcd"), 0, 4)
        moving = asyncio.ensure_future(device.transfer([Transfer(region, buffer, None)]))
        await asyncio.sleep(0)
        device.lost = True
        with pytest.raises(DeviceLostError, match="while constants were moved"):
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
        result = await device.run(plan, words(0, 4, 0, 0).view(np.uint8))
        assert np.frombuffer(result, np.int32).tolist() == [0] * 4 + [fault[0], 0, 0, 0]
        result = await device.run(plan, words(0, -1, 0, 0).view(np.uint8))
        assert np.frombuffer(result, np.float32)[:4].tolist() == [0, 1, 2, 3]
        assert np.frombuffer(result, np.int32)[4] == 0, "every run of a plan starts without it"
        with pytest.raises(IndexRangeError):
            await delegate.execute([words(-4, 0)])
        await delegate.execute([words(0, 0)])

    wait(run())


# Faults to order


@pytest.mark.parametrize("at_result", [False, True])
@pytest.mark.parametrize("method", FALLIBLE)
def test_a_call_fails_when_it_is_told_to(method: str, at_result: bool) -> None:
    async def run() -> None:
        device = RecordingDevice(features=("timestamp-query",))
        first, second = await _two_buffers(device)
        plan = await device.create_plan(NO_PLAN)
        before = device.counts()
        calls: dict[str, Callable[[], Any]] = {
            "create_buffers": lambda: device.create_buffers([4]),
            "create_pipelines": lambda: device.create_pipelines([]),
            "create_plan": lambda: device.create_plan(NO_PLAN),
            "transfer": lambda: device.transfer([]),
            "write": lambda: device.write(first, 0, words(1)),
            "read": lambda: device.read(first, 4),
            "run": lambda: device.run(plan, NO_PAYLOAD, [GpuCopy(first, second, 4)]),
            "profile": lambda: device.profile(plan, NO_PAYLOAD, [GpuCopy(first, second, 4)]),
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
        device = RecordingDevice()
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
        device = RecordingDevice()
        plan = await device.create_plan(NO_PLAN)
        with pytest.raises(DeviceError, match="no timestamps"):
            device.profile(plan, NO_PAYLOAD)

    wait(run())


def test_a_profile_is_a_run_with_times() -> None:
    async def run() -> None:
        device = RecordingDevice(features=("timestamp-query",))
        await make_delegate(add_graph((4,)), device)
        (plan,) = device.plans
        payload = np.concatenate([ones(4), ones(4)]).view(np.uint8)
        result, times = await device.profile(plan, payload)
        assert result == await device.run(plan, payload)
        assert np.frombuffer(result, np.float32).tolist() == [2] * 4
        assert len(times) == 1

    wait(run())
