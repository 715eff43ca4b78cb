"""The promises of a device, as checks that every device has to pass.

`CHECKS` has them by name; each takes a `Subject` with a fresh device. docs/native.md says in words
what they ask. This also runs in a page.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from support.devices.device_fixture import (
    NO_COMMANDS,
    NO_PAYLOAD,
    Bench,
    Subject,
    expect,
    floats,
    floats_in,
    payload_of,
    raises,
    settled,
    spec_of,
)
from webpte.errors import (
    ConstantError,
    DeviceError,
    DeviceLostError,
    InputError,
    OutOfMemoryError,
    ShaderError,
)
from webpte.gpu.device import GpuCopy, PipelineSpec, PlanRun, SubPlan, Transfer
from webpte.runtime.base.open import open_bytes
from webpte.source import Region

Check = Callable[[Subject], Awaitable[None]]

CHECKS: dict[str, Check] = {}

A, B, C = floats(1, -2, 3, -4), floats(-5, 6, -7, 8), floats(9, 10, -11, -12)


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


# Buffers


@check
async def new_buffers_are_zero(subject: Subject) -> None:
    device, sizes = subject.device, [4, 16, 256, 4096]
    for _ in range(2):  # the second time perhaps in used memory
        made = await device.create_buffers(sizes)
        for buffer, size in zip(made, sizes, strict=True):
            assert await device.read(buffer, size) == bytes(size)
            device.write(buffer, 0, np.full(size, 255, np.uint8))
        device.destroy_buffers(made)


@check
async def buffers_are_made_all_or_none(subject: Subject) -> None:
    before = subject.device.counts()["buffers"]
    await raises(
        OutOfMemoryError, lambda: subject.device.create_buffers([16, 16, subject.too_much])
    )
    assert subject.device.counts()["buffers"] == before
    (after,) = await subject.device.create_buffers([16])
    assert await subject.device.read(after, 16) == bytes(16)


@check
async def destroyed_buffers_are_gone(subject: Subject) -> None:
    device = subject.device
    before = device.counts()["buffers"]
    first, second = await device.create_buffers([16, 16])
    assert first != second
    assert device.counts()["buffers"] == before + 2
    device.destroy_buffers([first])
    assert device.counts()["buffers"] == before + 1
    await raises(DeviceError, lambda: device.read(first, 16))
    assert await device.read(second, 16) == bytes(16)


@check
async def a_read_sees_what_was_written_before_and_nothing_after(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 1)
    bench.put(0, A)
    early = subject.device.read(bench.buffers[0], 16)
    bench.put(0, B)
    late = subject.device.read(bench.buffers[0], 8)
    subject.device.write(bench.buffers[0], 8, floats(0, 0))
    expect(floats_in(await late), B[:2], "the beginning")
    expect(floats_in(await early), A, "before the second write")
    expect(await bench.get(0), floats(-5, 6, 0, 0), "after a write to the middle")


@check
async def copies_keep_their_place_in_the_queue(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 3)
    bench.put(0, A)
    first, second, third = bench.buffers
    subject.device.copy([GpuCopy(first, second, 16), GpuCopy(second, third, 8)])
    bench.put(0, B)
    expect(await bench.get(1), A, "the copy")
    expect(await bench.get(2), floats(1, -2, 0, 0), "a copy of a part of it")


# Constants


@check
async def constants_are_converted_on_their_way(subject: Subject) -> None:
    halves = np.array([0.0, -1.5, 65504, 6e-8, np.inf, -np.inf, np.nan], np.float16)
    doubles = np.array([1 / 3, -1e300, 5e-324], np.float64)
    longs = np.array([0, -1, 2**31 - 1, -(2**31), 77], np.int64)
    plain = np.arange(5, dtype=np.uint8)
    with np.errstate(over="ignore"):
        wanted: tuple[tuple[np.ndarray, str | None, np.ndarray], ...] = (
            (halves, "float16", halves.astype(np.float32)),
            (doubles, "float64", doubles.astype(np.float32)),
            (longs, "int64", longs.astype(np.int32)),
            (plain, None, np.array([0, 1, 2, 3, 4, 0, 0, 0], np.uint8)),
        )
    seen: list[tuple[str, int, int]] = []
    data = b"".join(array.tobytes() for array, _, _ in wanted)
    source = open_bytes(b"?" + data, "constants")  # no part is aligned
    made = await subject.device.create_buffers([want.nbytes for _, _, want in wanted])
    transfers, offset = [], 1
    for buffer, (array, convert, _) in zip(made, wanted, strict=True):
        transfers.append(Transfer(Region(source, offset, array.nbytes), buffer, convert))
        offset += array.nbytes
    await subject.device.transfer(transfers[::-1], lambda *progress: seen.append(progress))
    for buffer, (_, convert, want) in zip(made, wanted, strict=True):
        got = np.frombuffer(await subject.device.read(buffer, want.nbytes), want.dtype)
        expect(got, want, str(convert))
    assert seen[-1] == ("constants", len(data), len(data))


@check
async def a_constant_that_does_not_fit_is_refused(subject: Subject) -> None:
    (buffer,) = await subject.device.create_buffers([16])
    source = open_bytes(np.array([1, 2**31], np.int64).tobytes(), "large")
    transfer = Transfer(Region(source, 0, 16), buffer, "int64")
    await raises(ConstantError, lambda: subject.device.transfer([transfer]))


@check
async def constants_for_buffers_that_are_gone_are_an_error(subject: Subject) -> None:
    kept, gone = await subject.device.create_buffers([16, 16])
    source = open_bytes(A.tobytes(), "constants")
    subject.device.destroy_buffers([gone])
    transfer = Transfer(Region(source, 0, 16), gone, None)
    await raises(DeviceError, lambda: subject.device.transfer([transfer]))
    await subject.device.transfer([Transfer(Region(source, 0, 16), kept, None)])
    expect(floats_in(await subject.device.read(kept, 16)), A, "the next")


# Pipelines


@check
async def equal_kernels_are_compiled_once(subject: Subject) -> None:
    device, neg, relu = subject.device, spec_of("neg"), spec_of("relu")
    first, both = await asyncio.gather(
        device.create_pipelines([neg, neg]), device.create_pipelines([relu, spec_of("neg")])
    )
    assert first == [both[1], both[1]]
    assert both[0] != both[1]
    assert device.counts()["pipelines"] == 2
    assert await device.create_pipelines([neg, relu]) == [both[1], both[0]]


@check
async def kernels_to_be_compiled_are_told_of_before_the_first_is(subject: Subject) -> None:
    device, told = subject.device, list[tuple[str, int, int]]()
    specs = [spec_of("neg"), spec_of("relu"), spec_of("neg")]
    making = asyncio.ensure_future(
        device.create_pipelines(specs, lambda *progress: told.append(progress))
    )
    await asyncio.sleep(0)
    assert told == [("compile", 0, 2)]
    await making
    assert told == [("compile", done, 2) for done in range(3)]
    await device.create_pipelines(specs, lambda *progress: told.append(progress))
    assert len(told) == 3  # no progress for those that exist


@check
async def a_kernel_that_does_not_compile_is_named(subject: Subject) -> None:
    if not subject.compiles:
        return
    broken = PipelineSpec("my broken kernel", "fn main( {", ("write",), ())
    for _ in range(2):
        message = await raises(
            ShaderError, lambda: subject.device.create_pipelines([spec_of("neg"), broken])
        )
        assert "my broken kernel" in message
    assert len(await subject.device.create_pipelines([spec_of("neg")])) == 1


# Plans


@check
async def a_run_uploads_dispatches_and_reads_back(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 3, elements=101)
    plan = await bench.plan(("neg", 0, 2), upload=[0, 1], back=[2, 1])
    for round in range(3):  # from the second time on, nothing is new
        x = np.arange(101, dtype=np.float32) - 50 + round
        result = floats_in(await subject.device.run(PlanRun(plan, payload_of(x, x * 2))))
        expect(result, np.concatenate([-x, x * 2]), f"round {round}")


@check
async def dispatches_run_in_order(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 3)
    rectified_last = await bench.plan(("neg", 0, 1), ("relu", 1, 2), upload=[0], back=[2])
    rectified_first = await bench.plan(("relu", 0, 1), ("neg", 1, 2), upload=[0], back=[2])
    device, payload = subject.device, payload_of(A)
    expect(
        floats_in(await device.run(PlanRun(rectified_last, payload))),
        floats(0, 2, 0, 4),
        "neg, relu",
    )
    expect(
        floats_in(await device.run(PlanRun(rectified_first, payload))),
        -floats(1, 0, 3, 0),
        "relu, neg",
    )


@check
async def a_run_clears_and_copies_around_its_kernels(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 6)
    one, into, out, cleared, other, keep = bench.buffers
    bench.put(0, A)
    bench.put(3, C)
    bench.put(4, B)
    plan = await bench.plan(("neg", 1, 2), back=[2, 3], clear=[3])
    copies = [GpuCopy(one, into, 16), GpuCopy(other, cleared, 8)]
    kept = [GpuCopy(out, keep, 16)]
    result = floats_in(
        await subject.device.run(PlanRun(plan, NO_PAYLOAD, copies, copies_after=kept))
    )
    expect(result, np.concatenate([-A, floats(-5, 6, 0, 0)]), "cleared, then copied, then run")
    bench.put(0, C)
    expect(await bench.get(5), -A, "what was kept")


@check
async def parts_of_other_plans_run_in_one_submission(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 6)
    given, at, out, _, kept, tally = bench.buffers
    negative = await bench.plan(("neg", 1, 2), upload=[1], back=[2], clear=[5])
    rectified = await bench.plan(("relu", 2, 3), back=[3])
    half = 8  # bytes
    parts = (
        # A sub-plan does not upload: these copies bring its input.
        SubPlan(negative, (GpuCopy(given, at, half), GpuCopy(given, at, half, half, half))),
        SubPlan(
            rectified, copies_after=(GpuCopy(out, kept, half, 0, half), GpuCopy(out, tally, half))
        ),
        SubPlan(negative, (GpuCopy(out, at, 16),)),
    )
    both = await bench.plan(upload=[0], back=[3, 4, 2, 5], parts=parts)
    for x in (A, B):
        bench.put(4, C)
        bench.put(5, C)
        result = floats_in(await subject.device.run(PlanRun(both, payload_of(x))))
        expect(result[:4], np.maximum(-x, 0), "of the part in the middle")
        expect(result[4:8], np.concatenate([C[:2], -x[:2]]), "half of what it kept")
        expect(result[8:12], x, "of the last part, which goes on with the first one's")
        expect(result[12:], floats(0, 0, 0, 0), "what the last part sets to zero")
    for plan in (negative, rectified):  # their dispatches are already resolved
        subject.device.destroy_plan(plan)
    result = floats_in(await subject.device.run(PlanRun(both, payload_of(C))))
    expect(result[:4], np.maximum(-C, 0), "without the plans that the parts are of")


@check
async def parts_of_what_is_not_there_are_errors(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 2)
    plan = await bench.plan(("neg", 0, 1), back=[1])
    for part in (SubPlan(10_000), SubPlan(plan, (GpuCopy(10_000, bench.buffers[0], 16),))):
        try:
            made = await bench.plan(back=[1], parts=(part,))
            await subject.device.run(PlanRun(made, NO_PAYLOAD))
        except DeviceError:
            continue
        raise AssertionError("a part of what does not exist was no error")


@check
async def an_unread_run_leaves_its_results_there(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 3)
    first = await bench.plan(("neg", 0, 1), upload=[0], back=[1])
    then = await bench.plan(("neg", 1, 2), back=[2])
    for x in (A, B):
        unread = subject.device.run(PlanRun(first, payload_of(x), read=False))
        expect(floats_in(await subject.device.run(PlanRun(then, NO_PAYLOAD))), x, "what came after")
        assert await unread == b""
        expect(await bench.get(1), -x, "what stayed")


@check
async def runs_overlap_and_each_has_its_results(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 2)
    plan = await bench.plan(("neg", 0, 1), upload=[0], back=[1])
    for _ in range(3):
        payload = payload_of(A)
        running = []
        for number in range(5):
            payload[:] = payload_of(A * number)  # a run has read its payload when it returns
            running.append(subject.device.run(PlanRun(plan, payload)))
        for number, run in reversed(list(enumerate(running))):
            expect(floats_in(await run), -A * number, f"run {number}")


@check
async def a_plan_may_go_while_it_runs(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 2)
    plan = await bench.plan(("neg", 0, 1), upload=[0], back=[1])
    before = subject.device.counts()["plans"]
    running = subject.device.run(PlanRun(plan, payload_of(A)))
    subject.device.destroy_plan(plan)
    assert subject.device.counts()["plans"] == before - 1
    expect(floats_in(await running), -A, "the run")
    device = subject.device
    messages = [await raises(DeviceError, lambda: device.run(PlanRun(plan, payload_of(A))))]
    if "timestamp-query" in device.info.features:
        messages.append(
            await raises(DeviceError, lambda: device.profile(PlanRun(plan, payload_of(A))))
        )
    assert all(message.endswith("or was destroyed") for message in messages), messages


@check
async def a_profile_is_a_run_with_times(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 4)
    plan = await bench.plan(("neg", 0, 1), ("relu", 1, 2), upload=[0], back=[2])
    device, kept = subject.device, [GpuCopy(bench.buffers[1], bench.buffers[3], 16)]
    if "timestamp-query" not in device.info.features:
        await raises(DeviceError, lambda: device.profile(PlanRun(plan, payload_of(A))))
        expect(await bench.get(0), A * 0, "what was not uploaded")
        return
    for x in (A, B):
        data, times = await device.profile(PlanRun(plan, payload_of(x), copies_after=kept))
        assert data == await device.run(PlanRun(plan, payload_of(x)))
        assert len(times) == 2
        assert all(0 <= time < 1e9 for time in times), times
        expect(await bench.get(3), -x, "what was kept")


# Buffers of other code


@check
async def other_codes_buffers_can_be_read(subject: Subject) -> None:
    device = subject.device
    bench = await Bench.create(device, 1)
    bench.put(0, A)
    shown = device.native_buffer(bench.buffers[0])
    assert device.is_native_buffer(shown)
    assert not device.is_native_buffer(A)
    again, nbytes = device.adopt_buffer(shown)
    assert nbytes == 16
    expect(floats_in(await device.read(again, 16)), A, "adopted")
    device.forget_buffers([again])
    await raises(DeviceError, lambda: device.read(again, 16))
    expect(await bench.get(0), A, "still its maker's")
    for wrong in (A, subject.make_native(16, copyable=False)):
        await raises(InputError, lambda wrong=wrong: device.adopt_buffer(wrong))  # type: ignore[misc]


@check
async def a_buffer_that_its_maker_destroyed_fails_one_call(subject: Subject) -> None:
    device, native = subject.device, subject.make_native(16)
    bench = await Bench.create(device, 2)
    adopted, _ = device.adopt_buffer(native)
    plan = await bench.plan(("neg", 0, 1), back=[1])
    copies = [GpuCopy(adopted, bench.buffers[0], 16)]
    bench.put(0, A)
    expect(
        floats_in(await device.run(PlanRun(plan, NO_PAYLOAD, copies, validate=True))),
        A * 0,
        "zeros",
    )
    native.destroy()
    bench.put(0, A)
    await raises(DeviceError, lambda: device.run(PlanRun(plan, NO_PAYLOAD, copies, validate=True)))
    device.forget_buffers([adopted])
    assert not device.lost
    expect(floats_in(await device.run(PlanRun(plan, NO_PAYLOAD))), -A, "the next call")


# Loss and cancellation


@check
async def a_lost_device_says_so_everywhere(subject: Subject) -> None:
    device = subject.device
    bench = await Bench.create(device, 2)
    plan = await bench.plan(("neg", 0, 1), upload=[0], back=[1])
    (buffer, _), source = bench.buffers, open_bytes(A.tobytes(), "constants")
    running = device.run(PlanRun(plan, payload_of(A)))
    assert not device.lost
    subject.lose()
    with contextlib.suppress(DeviceLostError):
        expect(floats_in(await running), -A, "what ended before")
    await settled(lambda: device.lost)
    calls: list[Callable[[], Any]] = [
        lambda: device.create_buffers([16]),
        lambda: device.create_pipelines([PipelineSpec("new", "", ("write",), ())]),
        lambda: device.create_plan(NO_COMMANDS),
        lambda: device.transfer([Transfer(Region(source, 0, 16), buffer, None)]),
        lambda: device.write(buffer, 0, A),
        lambda: device.read(buffer, 16),
        lambda: device.copy([GpuCopy(buffer, bench.buffers[1], 16)]),
        lambda: device.run(PlanRun(plan, payload_of(A))),
    ]
    if "timestamp-query" in device.info.features:
        calls.append(lambda: device.profile(PlanRun(plan, payload_of(A))))
    for call in calls:
        await raises(DeviceLostError, call)
    device.destroy_plan(plan)  # destroying never fails
    device.destroy_buffers(bench.buffers)


@check
async def nothing_stays_of_what_was_cancelled(subject: Subject) -> None:
    device = subject.device
    bench = await Bench.create(device, 2)
    before = device.counts()
    for turns in range(4):
        buffers = asyncio.ensure_future(device.create_buffers([16, 64]))
        plan = asyncio.ensure_future(bench.plan(("neg", 0, 1), upload=[0], back=[1]))
        for _ in range(turns):
            await asyncio.sleep(0)
        buffers.cancel()
        plan.cancel()
        await asyncio.gather(buffers, plan, return_exceptions=True)
        if not buffers.cancelled():
            device.destroy_buffers(buffers.result())
        if not plan.cancelled():
            device.destroy_plan(plan.result())
        await settled(lambda: device.counts() == before)


@check
async def a_run_that_was_cancelled_harms_no_other(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 2)
    plan = await bench.plan(("neg", 0, 1), upload=[0], back=[1])
    for turns in range(1, 4):
        cancelled = asyncio.ensure_future(
            _awaited(subject.device.run(PlanRun(plan, payload_of(B))))
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        expect(
            floats_in(await subject.device.run(PlanRun(plan, payload_of(A)))), -A, "the next call"
        )


async def _awaited(work: Awaitable[bytes]) -> bytes:
    return await work
