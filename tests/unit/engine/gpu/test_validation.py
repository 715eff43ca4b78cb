"""The simulated device refuses the commands that WebGPU would refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.devices.recorded import NO_PAYLOAD, NO_PLAN, add_graph, two_buffers, words
from support.graphs.graphs import make_delegate, wait
from webpte.engine.gpu.device import (
    DispatchCommand,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Readback,
    Resource,
    Upload,
)
from webpte.engine.gpu.simulated.device import RecordedBuffer, SimulatedDevice
from webpte.errors import (
    DeviceError,
)


async def made_plan() -> tuple[SimulatedDevice, PlanCommands]:
    """Return a device with the plan of x + y, and the commands of this plan."""
    device = SimulatedDevice()
    await make_delegate(add_graph((4,)), device)
    (commands,) = device.plans.values()
    return device, commands


def with_dispatch(commands: PlanCommands, **changes: Any) -> PlanCommands:
    (dispatch,) = commands.dispatches
    return replace(commands, dispatches=(replace(dispatch, **changes),))


# Invalid commands

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
        "6 bytes are not a multiple of 4",
    ),
    "clear of no buffer": (lambda c: replace(c, clears=(FREED,)), "a clear: buffer 999"),
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
        "beyond 16 bytes of results",
    ),
    "read-back at half a word": (
        lambda c: replace(c, readbacks=(replace(c.readbacks[0], result_offset=2, nbytes=4),)),
        "not a multiple of 4",
    ),
    "results of no words": (lambda c: replace(c, result_bytes=18), "the results: 18 bytes"),
    "no pipeline": (lambda c: with_dispatch(c, pipeline=FREED), "pipeline 999"),
    "no origin": (lambda c: with_dispatch(c, origin=None), "a dispatch without a call"),
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
        with pytest.raises(DeviceError, match="was created for another usage"):
            await device.create_plan(wrong)
        (storage,) = await device.create_buffers([256])
        with pytest.raises(DeviceError, match="was created for another usage"):
            await device.create_plan(_bound(-1, buffer=storage)(commands))
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
        (buffer,) = await device.create_buffers([128 * 1024], use="uniform")
        with pytest.raises(DeviceError, match="65792 bytes are over 65536"):
            await device.create_plan(_bound(-1, buffer=buffer, nbytes=65792)(commands))

    wait(run())


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ((FREED, 2, 4), "buffer 999"),
        ((1, FREED, 4), "buffer 999"),
        ((1, 1, 4), "copied to itself"),
        ((1, 2, 12), "to buffer 2: bytes 0 to 12 of a buffer of 8"),
        ((2, 1, 12), "from buffer 2: bytes 0 to 12 of a buffer of 8"),
        ((1, 2, 6), "not a multiple of 4"),
    ],
)
def test_a_copy_that_webgpu_would_refuse(copy: tuple[int, int, int], message: str) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        assert await two_buffers(device) == (1, 2)
        with pytest.raises(DeviceError, match=message):
            device.copy([GpuCopy(*copy)])
        plan = await device.create_plan(NO_PLAN)
        either: list[dict[str, Any]] = [
            {"copies": [GpuCopy(*copy)]},
            {"copies_after": [GpuCopy(*copy)]},
        ]
        for copies in either:
            with pytest.raises(DeviceError, match=message):
                device.run(PlanRun(plan, NO_PAYLOAD, **copies))
            running = device.run(PlanRun(plan, NO_PAYLOAD, validate=True, **copies))
            with pytest.raises(DeviceError, match=message):
                await running

    wait(run())


def test_reads_writes_and_sizes_keep_to_their_buffer() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        first, second = await two_buffers(device)
        device.destroy_buffers([first])
        for broken, message in (
            (lambda: device.write(second, 0, words(1, 2, 3)), "bytes 0 to 12"),
            (lambda: device.write(second, 2, words(1)), "not a multiple of 4"),
            (lambda: device.write(first, 0, words(1)), "does not exist"),
            (lambda: device.read(second, 12), "bytes 0 to 12"),
            (lambda: device.read(second, 2), "not a multiple of 4"),
            (lambda: device.read(first, 4), "does not exist"),
            (lambda: device.destroy_buffers([first]), "does not exist"),
            (lambda: device.destroy_buffers([second, second]), "twice"),
            (lambda: device.native_buffer(first), "does not exist"),
            (lambda: device.forget_buffers([second]), "was not adopted"),
            (lambda: device.destroy_plan(7), "plan 7"),
            (lambda: device.run(PlanRun(7, NO_PAYLOAD)), "plan 7"),
        ):
            with pytest.raises(DeviceError, match=message):
                broken()
        with pytest.raises(DeviceError, match="not a multiple of 4"):
            await device.create_buffers([6])
        assert device.buffers == {second: 8}

    wait(run())


def test_a_plan_outlives_its_buffers_but_does_not_run() -> None:
    async def run() -> None:
        device, commands = await made_plan()
        (plan,) = device.plans
        payload = np.zeros(32, np.uint8)
        with pytest.raises(DeviceError, match="beyond a payload of 31 bytes"):
            device.run(PlanRun(plan, payload[:31]))
        device.destroy_buffers([commands.readbacks[0].buffer])
        with pytest.raises(DeviceError, match=f"running plan {plan}: buffer"):
            device.run(PlanRun(plan, payload))
        device.destroy_plan(plan)
        with pytest.raises(DeviceError, match="or was destroyed"):
            device.run(PlanRun(plan, payload))

    wait(run())


def test_what_another_destroyed_is_this_calls_error() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        (target,) = await device.create_buffers([8])
        native = RecordedBuffer(8)
        number, size = device.adopt_buffer(native)
        assert size == 8
        plan = await device.create_plan(NO_PLAN)
        native.destroy()
        running = device.run(PlanRun(plan, NO_PAYLOAD, [GpuCopy(number, target, 8)], validate=True))
        with pytest.raises(DeviceError, match="destroyed by its owner"):
            await running
        with pytest.raises(DeviceError, match="its owner destroyed"):
            await device.read(number, 8)
        device.forget_buffers([number])
        assert device.counts() == {"buffers": 1, "plans": 1, "adopted": 0, "pipelines": 0}

    wait(run())
