"""Promises of a device about buffers: its own, constants, and buffers of other code."""

from __future__ import annotations

import numpy as np

from support.devices.device_fixture import (
    NO_PAYLOAD,
    Bench,
    Checks,
    Subject,
    expect,
    floats,
    floats_in,
    raises,
)
from webpte.engine.files.source import Region
from webpte.engine.gpu.device import GpuCopy, PlanRun, Transfer
from webpte.engine.open.open_source import open_bytes
from webpte.errors import (
    ConstantError,
    DeviceError,
    InputError,
    OutOfMemoryError,
)

CHECKS = Checks()

A, B, C = floats(1, -2, 3, -4), floats(-5, 6, -7, 8), floats(9, 10, -11, -12)


# Buffers


@CHECKS.add
async def new_buffers_are_zero(subject: Subject) -> None:
    device, sizes = subject.device, [4, 16, 256, 4096]
    for _ in range(2):  # the second time perhaps in used memory
        made = await device.create_buffers(sizes)
        for buffer, size in zip(made, sizes, strict=True):
            assert await device.read(buffer, size) == bytes(size)
            device.write(buffer, 0, np.full(size, 255, np.uint8))
        device.destroy_buffers(made)


@CHECKS.add
async def buffers_are_made_all_or_none(subject: Subject) -> None:
    before = subject.device.counts()["buffers"]
    await raises(
        OutOfMemoryError, lambda: subject.device.create_buffers([16, 16, subject.too_much])
    )
    assert subject.device.counts()["buffers"] == before
    (after,) = await subject.device.create_buffers([16])
    assert await subject.device.read(after, 16) == bytes(16)


@CHECKS.add
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


@CHECKS.add
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


@CHECKS.add
async def copies_keep_their_place_in_the_queue(subject: Subject) -> None:
    bench = await Bench.create(subject.device, 3)
    bench.put(0, A)
    first, second, third = bench.buffers
    subject.device.copy([GpuCopy(first, second, 16), GpuCopy(second, third, 8)])
    bench.put(0, B)
    expect(await bench.get(1), A, "the copy")
    expect(await bench.get(2), floats(1, -2, 0, 0), "a copy of a part of it")


# Constants


@CHECKS.add
async def constants_are_converted_on_their_way(subject: Subject) -> None:
    halves = np.array([0.0, -1.5, 65504, 6e-8, np.inf, -np.inf, np.nan], np.float16)
    # bfloat16: 0.1, -2, 0, the largest and the smallest numbers, infinity, NaN
    upper = np.array([0x3DCD, 0xC000, 0, 0x7F7F, 0xFF7F, 1, 0x7F80, 0x7FC0, 0x8001], np.uint16)
    doubles = np.array([1 / 3, -1e300, 5e-324], np.float64)
    longs = np.array([0, -1, 2**31 - 1, -(2**31), 77], np.int64)
    plain = np.arange(5, dtype=np.uint8)
    with np.errstate(over="ignore"):
        wanted: tuple[tuple[np.ndarray, str | None, np.ndarray], ...] = (
            (halves, "float16", halves.astype(np.float32)),
            (upper, "bfloat16", (upper.astype(np.uint32) << 16).view(np.float32)),
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


@CHECKS.add
async def a_constant_that_does_not_fit_is_refused(subject: Subject) -> None:
    (buffer,) = await subject.device.create_buffers([16])
    source = open_bytes(np.array([1, 2**31], np.int64).tobytes(), "large")
    transfer = Transfer(Region(source, 0, 16), buffer, "int64")
    await raises(ConstantError, lambda: subject.device.transfer([transfer]))


@CHECKS.add
async def constants_for_buffers_that_are_gone_are_an_error(subject: Subject) -> None:
    kept, gone = await subject.device.create_buffers([16, 16])
    source = open_bytes(A.tobytes(), "constants")
    subject.device.destroy_buffers([gone])
    transfer = Transfer(Region(source, 0, 16), gone, None)
    await raises(DeviceError, lambda: subject.device.transfer([transfer]))
    await subject.device.transfer([Transfer(Region(source, 0, 16), kept, None)])
    expect(floats_in(await subject.device.read(kept, 16)), A, "the next")


# Buffers of other code


@CHECKS.add
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


@CHECKS.add
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
