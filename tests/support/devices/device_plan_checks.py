"""Promises of a device about pipelines and plans, about its loss, and about cancelled work."""

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
    Checks,
    Subject,
    expect,
    floats,
    floats_in,
    payload_of,
    raises,
    settled,
    spec_of,
)
from webpte.engine.files.source import Region
from webpte.engine.gpu.device import (
    UNIFORM_BYTES,
    GpuCopy,
    PipelineSpec,
    PlanRun,
    SubPlan,
    Transfer,
)
from webpte.engine.open.open_source import open_bytes
from webpte.errors import (
    DeviceError,
    DeviceLostError,
    ShaderError,
)

CHECKS = Checks()

A, B, C = floats(1, -2, 3, -4), floats(-5, 6, -7, 8), floats(9, 10, -11, -12)


# Pipelines


@CHECKS.add
async def equal_kernels_are_compiled_once(subject: Subject) -> None:
    device, neg, relu = subject.device, spec_of("neg"), spec_of("relu")
    first, both = await asyncio.gather(
        device.create_pipelines([neg, neg]), device.create_pipelines([relu, spec_of("neg")])
    )
    assert first == [both[1], both[1]]
    assert both[0] != both[1]
    assert device.counts()["pipelines"] == 2
    assert await device.create_pipelines([neg, relu]) == [both[1], both[0]]


@CHECKS.add
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
    assert len(told) == 3  # no progress for existing pipelines


@CHECKS.add
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


@CHECKS.add
async def a_run_uploads_dispatches_and_reads_back(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 3, elements=101)
    plan = await bench.plan(("neg", 0, 2), upload=[0, 1], back=[2, 1])
    for round in range(3):  # from the second time on, nothing is new
        x = np.arange(101, dtype=np.float32) - 50 + round
        result = floats_in(await subject.device.run(PlanRun(plan, payload_of(x, x * 2))))
        expect(result, np.concatenate([-x, x * 2]), f"round {round}")


@CHECKS.add
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


@CHECKS.add
async def constants_of_64_kilobytes_bind_as_uniforms(subject: Subject) -> None:
    for nbytes in (256, UNIFORM_BYTES):
        bench = await Bench.create(subject.device, 2, counts=nbytes)
        plan = await bench.plan(("neg", 0, 1), upload=[0], back=[1])
        expect(floats_in(await subject.device.run(PlanRun(plan, payload_of(A)))), -A, f"{nbytes}")


@CHECKS.add
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


@CHECKS.add
async def a_run_in_slices_is_one_run(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 6)
    one, into, out, _, keep, tally = bench.buffers
    chain = (("neg", 1, 2), ("relu", 2, 3), ("neg", 3, 2))
    plan = await bench.plan(*chain, upload=[0], back=[2, 5], clear=[5])
    copies, kept = [GpuCopy(one, into, 16), GpuCopy(one, tally, 8)], [GpuCopy(out, keep, 16)]
    for x in (A, B):  # the second time nothing is new
        bench.put(5, C)
        for first in range(3):
            run = PlanRun(plan, payload_of(x), copies, kept, slice=(first, first + 1))
            result = await subject.device.run(run)
            assert (result == b"") == (first < 2), f"slice {first} returned {len(result)} bytes"
            if first == 0:
                expect(await bench.get(2), -x, "after the first slice")
                bench.put(0, C)  # it is uploaded, copied and cleared no more
        wanted = np.concatenate([np.minimum(x, 0), x[:2], floats(0, 0)])
        expect(floats_in(result), wanted, "of all slices")
        expect(await bench.get(4), np.minimum(x, 0), "what was kept")


@CHECKS.add
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


@CHECKS.add
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


@CHECKS.add
async def an_unread_run_leaves_its_results_there(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 3)
    first = await bench.plan(("neg", 0, 1), upload=[0], back=[1])
    then = await bench.plan(("neg", 1, 2), back=[2])
    for x in (A, B):
        unread = subject.device.run(PlanRun(first, payload_of(x), read=False))
        expect(floats_in(await subject.device.run(PlanRun(then, NO_PAYLOAD))), x, "what came after")
        assert await unread == b""
        expect(await bench.get(1), -x, "what stayed")


@CHECKS.add
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


@CHECKS.add
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


@CHECKS.add
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


# Loss and cancellation


@CHECKS.add
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


@CHECKS.add
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


@CHECKS.add
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
