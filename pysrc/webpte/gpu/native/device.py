"""WebGPU without a browser: the same plans and kernels on this machine's GPU, from CPython.

Dawn does what engine.js has the browser do (see `dawn` and `native_plan`). Buffers, pipelines and
plans are numbers here too. Everything but results and pipelines is ready when a call returns, and
while one waits for these the event loop goes on. One thread may use a device.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np

from webpte.errors import DeviceError, InputError
from webpte.gpu.convert import by_file, converted, stored_offset
from webpte.gpu.device import (
    DeviceInfo,
    DispatchCommand,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    Progress,
    Transfer,
    check_clock,
    check_sizes,
)
from webpte.gpu.native.dawn import DawnDevice, Owned, Promise, array_of, load_dawn
from webpte.gpu.native.pipelines import NativeCompiler
from webpte.gpu.native.plan import (
    Copied,
    Dispatched,
    NativeBuffer,
    NativePart,
    NativePlan,
    encode_copies,
    encode_timed,
    make_buffer,
    make_staging,
    submission,
    write_buffer,
)
from webpte.gpu.pipelines import PipelineCache

T = TypeVar("T")

CHUNK_BYTES = 8 << 20  # constants go up in parts of this size, with a turn of the loop between
IN_FLIGHT_BYTES = 64 << 20  # Dawn holds a copy of what the GPU has not taken yet


class NativeDevice:
    """This machine's GPU. `create` it once and share it among programs."""

    interop_calls = 0  # there is no JavaScript to cross to

    def __init__(self, device: DawnDevice, info: DeviceInfo) -> None:
        self.info = info
        self._device = device
        self._c = device.c
        self._ids = count(1)
        self._buffers: dict[int, NativeBuffer] = {}
        self._adopted: set[int] = set()
        self._plans: dict[int, NativePlan] = {}
        self._compiler = NativeCompiler(device, self._ids)
        self._cache = PipelineCache(self._compiler.compile)

    @classmethod
    async def create(cls) -> NativeDevice:
        dawn = load_dawn()
        adapter, info = dawn.find_adapter()
        return cls(dawn.open_device(adapter, info), info)

    @property
    def lost(self) -> bool:
        return self._device.loss.done

    @property
    def native(self) -> Any:
        """The `WGPUDevice`, as pydawn has it."""
        return self._device.handle

    def counts(self) -> dict[str, int]:
        """Live objects, for leak tests."""
        return {
            "buffers": len(self._buffers),
            "pipelines": len(self._compiler.pipelines),
            "plans": len(self._plans),
        }

    def destroy(self) -> None:
        """Give the GPU back; every program on this device is lost."""
        self._device.destroy()

    # Buffers

    async def create_buffers(self, sizes: Sequence[int], uniform: bool = False) -> list[int]:
        check_sizes(self.info, sizes, uniform)
        usage = "Uniform" if uniform else "Storage"
        doing = f"allocating {len(sizes)} buffers, {sum(sizes):,} bytes in all"
        with self._device.scoped(doing):
            made = [make_buffer(self._device, n, usage, "CopyDst", "CopySrc") for n in sizes]
        numbered = {next(self._ids): buffer for buffer in made}
        self._buffers |= numbered
        return list(numbered)

    def destroy_buffers(self, buffers: Sequence[int]) -> None:
        for number in buffers:
            _find(self._buffers, number, "destroying a buffer").destroy()
            del self._buffers[number]

    def native_buffer(self, buffer: int) -> NativeBuffer:
        return _find(self._buffers, buffer, "the native buffer")

    def is_native_buffer(self, value: object) -> bool:
        return isinstance(value, NativeBuffer)

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        if not isinstance(native, NativeBuffer):
            raise InputError(f"a NativeBuffer is needed, not a {type(native).__name__}")
        if not native.usage & self._c.WGPUBufferUsage_CopySrc:
            raise InputError("the buffer was not made with the usage CopySrc")
        number = next(self._ids)
        self._buffers[number] = native
        self._adopted.add(number)
        return number, native.size

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        for number in buffers:
            if number not in self._adopted:
                raise DeviceError(f"buffer {number} is forgotten, but it was not adopted")
            self._adopted.remove(number)
            del self._buffers[number]

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        target = _find(self._buffers, buffer, "a write")
        with self._device.scoped("writing parameters"):
            write_buffer(self._device, target, offset, data)

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        found = self._found(copies)
        with self._device.scoped("copying on the GPU"), submission(self._device) as encoder:
            encode_copies(self._c, encoder, found)

    def _found(self, copies: Sequence[GpuCopy]) -> list[Copied]:
        buffers = self._buffers
        return [
            Copied(
                _find(buffers, copy.source, "a copy"),
                _find(buffers, copy.target, "a copy"),
                copy.nbytes,
                copy.source_offset,
                copy.target_offset,
            )
            for copy in copies
        ]

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        doing, source = "reading a tensor back", _find(self._buffers, buffer, "reading")
        with self._device.scoped(doing):
            staging = make_staging(self._device, nbytes)
            with submission(self._device) as encoder:
                encode_copies(self._c, encoder, [Copied(source, staging, nbytes)])
        return self._content(staging, self._device.map(staging.handle, nbytes), doing)

    async def _content(self, staging: NativeBuffer, mapped: Promise, doing: str) -> bytes:
        """What is in a buffer that was made to be read, once it can be."""
        await self._device.dawn.wait(mapped)
        self._device.check(doing)
        if mapped.status != self._c.WGPUMapAsyncStatus_Success:
            raise DeviceError(f"{doing}: {mapped.message}")
        address = self._c.wgpuBufferGetConstMappedRange(staging.handle, 0, staging.size)
        data = ctypes.string_at(address, staging.size)
        self._c.wgpuBufferUnmap(staging.handle)
        return data

    # Constants

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        self._device.check("moving constants")
        for source, ordered in by_file(transfers):
            total = sum(transfer.region.size for transfer in ordered)
            done, unsubmitted, flushed = 0, 0, Promise(done=True)
            for transfer in ordered:
                for start in range(0, transfer.region.size, CHUNK_BYTES):
                    length = min(CHUNK_BYTES, transfer.region.size - start)
                    await self._put(transfer, start, length, f"{source.name}: moving constants")
                    done, unsubmitted = done + length, unsubmitted + length
                    if progress is not None:
                        progress("constants", done, total)
                    if unsubmitted >= IN_FLIGHT_BYTES:
                        await self._device.dawn.wait(flushed)
                        self._c.wgpuQueueSubmit(self._device.queue, 0, None)
                        flushed, unsubmitted = self._device.work_done(), 0

    async def _put(self, transfer: Transfer, start: int, length: int, doing: str) -> None:
        stored = converted(await transfer.region.view(start, length), transfer.convert)
        if length == CHUNK_BYTES:
            await asyncio.sleep(0)
        target = _find(self._buffers, transfer.buffer, doing)  # given back meanwhile?
        with self._device.scoped(doing):
            flat = np.frombuffer(stored, np.uint8)
            write_buffer(self._device, target, stored_offset(start, transfer.convert), flat)

    # Plans

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        self._device.check("compiling kernels")
        return await self._cache.get(specs, progress)

    async def create_plan(self, commands: PlanCommands) -> int:
        doing = "preparing the execution"

        def buffer(number: int) -> NativeBuffer:
            return _find(self._buffers, number, doing)

        with self._device.scoped(doing):
            plan = NativePlan(
                uploads=[(buffer(u.buffer), u.payload_offset, u.nbytes) for u in commands.uploads],
                clears=[buffer(number) for number in commands.clears],
                dispatches=[self._dispatched(command, doing) for command in commands.dispatches],
                readbacks=[
                    (buffer(r.buffer), r.nbytes, r.result_offset) for r in commands.readbacks
                ],
                result_bytes=commands.result_bytes,
                parts=[
                    NativePart(
                        _find(self._plans, part.plan, doing),
                        self._found(part.copies),
                        self._found(part.kept),
                    )
                    for part in commands.parts
                ],
            )
        number = next(self._ids)
        self._plans[number] = plan
        return number

    def destroy_plan(self, plan: int) -> None:
        _find(self._plans, plan, "destroying a plan").close()
        del self._plans[plan]

    def _dispatched(self, command: DispatchCommand, doing: str) -> Dispatched:
        c = self._c
        made = _find(self._compiler.pipelines, command.pipeline, doing)
        entries = array_of(
            c.WGPUBindGroupEntry,
            [
                c.WGPUBindGroupEntry(
                    binding=number,
                    buffer=_find(self._buffers, resource.buffer, doing).handle,
                    offset=resource.offset,
                    size=resource.nbytes,
                )
                for number, resource in enumerate(command.resources)
            ],
        )
        descriptor = c.WGPUBindGroupDescriptor(
            layout=made.group_layout.handle, entryCount=len(entries), entries=entries
        )
        group = Owned(
            c.wgpuDeviceCreateBindGroup(self._device.handle, descriptor), c.wgpuBindGroupRelease
        )
        return Dispatched(made.pipeline.handle, group, command.grid)

    # Execution

    def run(
        self,
        plan: int,
        payload: np.ndarray,
        copies: Sequence[GpuCopy] = (),
        read: bool = True,
        *,
        kept: Sequence[GpuCopy] = (),
        watched: bool = False,
    ) -> Awaitable[bytes]:
        started = self._start("running", plan, payload, (copies, kept), read)
        return self._results(started, "running")

    def profile(
        self,
        plan: int,
        payload: np.ndarray,
        copies: Sequence[GpuCopy] = (),
        *,
        kept: Sequence[GpuCopy] = (),
        watched: bool = False,
    ) -> Awaitable[tuple[bytes, list[float]]]:
        check_clock(self.info)
        doing = "timing kernels"
        return self._timed(
            self._start(doing, plan, payload, (copies, kept), True, timed=True), doing
        )

    def _start(
        self,
        doing: str,
        number: int,
        payload: np.ndarray,
        copies: tuple[Sequence[GpuCopy], Sequence[GpuCopy]],
        read: bool,
        timed: bool = False,
    ) -> _Started:
        """Submit one execution. What Dawn has against it is for whoever waits for the results."""
        self._device.check(doing)
        device = self._device
        started = _Started(_find(self._plans, number, doing))
        plan, (first, last) = started.plan, map(self._found, copies)
        try:
            with device.scoped(doing):
                plan.write_uploads(device, payload)
                with submission(device) as encoder:
                    plan.encode_clears(self._c, encoder)
                    encode_copies(self._c, encoder, first)
                    if timed:
                        started.stamps = encode_timed(device, encoder, plan.dispatches)
                    else:
                        plan.encode(self._c, encoder)
                    encode_copies(self._c, encoder, last)
                    started.staging = plan.stage(device, encoder) if read else None
        except DeviceError as error:
            started.failure = error
            return started
        if started.staging is not None:
            started.mapped = device.map(started.staging.handle, plan.result_bytes)
        if not read:
            device.dawn.poll()  # nobody will wait, and what earlier runs used can go
        return started

    async def _results(self, started: _Started, doing: str) -> bytes:
        if started.failure is not None:
            raise started.failure
        if started.staging is None or started.mapped is None:
            return b""
        data = await self._content(started.staging, started.mapped, doing)
        if not started.plan.closed:
            started.plan.staging.append(started.staging)
        return data

    async def _timed(self, started: _Started, doing: str) -> tuple[bytes, list[float]]:
        data = await self._results(started, doing)
        if started.stamps is None:
            return data, []
        mapped = self._device.map(started.stamps.handle, started.stamps.size)
        stamps = np.frombuffer(await self._content(started.stamps, mapped, doing), np.uint64)
        nanoseconds = (stamps[1::2] - stamps[::2]).astype(np.int64)
        return data, [int(n) / 1000 for n in nanoseconds]


@dataclass(eq=False)
class _Started:
    """An execution that was submitted, or why not."""

    plan: NativePlan
    staging: NativeBuffer | None = None
    mapped: Promise | None = None
    stamps: NativeBuffer | None = None
    failure: DeviceError | None = None


def _find(table: Mapping[int, T], number: int, what: str) -> T:
    if number not in table:
        raise DeviceError(f"{what}: number {number} does not exist, or not any more")
    return table[number]
