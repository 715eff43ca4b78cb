"""WebGPU without a browser: the same plans and kernels on this machine's GPU, from CPython.

Dawn executes here the commands that engine.js gives to the browser (see `dawn` and `plan`). Only
results and pipelines take time after a call has returned, and the event loop goes on meanwhile. A
device may be used by a single thread.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np

from webpte.engine.files.download import Progress
from webpte.engine.gpu.convert import group_by_file, stored_offset, to_stored_bytes
from webpte.engine.gpu.device import (
    UNIFORM_BYTES,
    BufferUse,
    DispatchCommand,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Transfer,
)
from webpte.engine.gpu.device_info import DeviceInfo, check_clock, check_sizes, like_a_phone
from webpte.engine.gpu.native.adapters import find_adapter
from webpte.engine.gpu.native.dawn import DawnDevice, Owned, Promise, array_of, load_dawn
from webpte.engine.gpu.native.lavapipe import is_lavapipe
from webpte.engine.gpu.native.pipelines import NativeCompiler
from webpte.engine.gpu.native.plan import (
    NativeBuffer,
    NativeCopy,
    NativeDispatch,
    NativePart,
    NativePlan,
    encode_copies,
    encode_timed,
    make_buffer,
    make_staging,
    submission,
    write_buffer,
)
from webpte.engine.gpu.pipelines import PipelineCache
from webpte.engine.gpu.self_test_cache import MemoryText, checked_info
from webpte.errors import DeviceError, InputError

T = TypeVar("T")

CHUNK_BYTES = 8 << 20  # constants are uploaded in chunks, with a turn of the loop between
IN_FLIGHT_BYTES = 64 << 20  # Dawn holds a copy of all bytes that the GPU has not received yet


def usages_of(nbytes: int, use: BufferUse) -> tuple[str, ...]:
    """Return the usages of a buffer: small constants have both."""
    if use == "uniform":
        return ("Uniform",)
    both = use == "constant" and nbytes <= UNIFORM_BYTES
    return ("Storage", "Uniform") if both else ("Storage",)


class NativeDevice:
    """A GPU of this machine. `create` it once and share it among programs."""

    interop_calls = 0  # no JavaScript here
    verdicts = MemoryText()  # results of self-tests, by adapter

    def __init__(self, device: DawnDevice, info: DeviceInfo) -> None:
        self.info = info
        self._device = device
        self._c = device.c
        self._ids = count(1)
        self._buffers: dict[int, NativeBuffer] = {}
        self._adopted: set[int] = set()
        self._plans: dict[int, NativePlan] = {}
        settles = is_lavapipe(info.description)
        self._compiler = NativeCompiler(device, self._ids, lambda: self.info.packed_dot, settles)
        self._cache = PipelineCache(self._compiler.compile)

    @classmethod
    async def create(
        cls,
        phone: bool = False,
        self_test_texts: Mapping[str, str] | None = None,
        adapter: str = "",
    ) -> NativeDevice:
        """Open a GPU of this machine and test it, once per process.

        phone            with no more than the limits and features of a phone's GPU
        self_test_texts  as in `run_self_test`: then nothing is kept
        adapter          which GPU: an index, a part of its name, or a PCI id
        """
        dawn = load_dawn()
        found = find_adapter(dawn, adapter)
        info = like_a_phone(found.info) if phone else found.info
        device = cls(dawn.open_device(found.owned.handle, info), info)
        texts = MemoryText() if self_test_texts else cls.verdicts
        try:
            device.info = await checked_info(device, texts, "", self_test_texts)
        except BaseException:
            device.destroy()
            raise
        return device

    @property
    def lost(self) -> bool:
        return self._device.loss.done

    @property
    def native(self) -> Any:
        """The `WGPUDevice` of pydawn."""
        return self._device.handle

    def counts(self) -> dict[str, int]:
        """Live objects, for leak tests."""
        return {
            "buffers": len(self._buffers),
            "pipelines": len(self._compiler.pipelines),
            "plans": len(self._plans),
        }

    def destroy(self) -> None:
        """Destroy the GPU device; every program on it is lost."""
        self._device.destroy()

    # Buffers

    async def measure_waiting(self) -> None:
        """Do nothing: there is only one way to wait for results."""

    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        check_sizes(self.info, sizes, use == "uniform")
        doing = f"allocating {len(sizes)} buffers, {sum(sizes):,} bytes in all"
        with self._device.scoped(doing):
            made = [
                make_buffer(self._device, n, *usages_of(n, use), "CopyDst", "CopySrc")
                for n in sizes
            ]
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
            raise InputError("the buffer was not created with the usage CopySrc")
        number = next(self._ids)
        self._buffers[number] = native
        self._adopted.add(number)
        return number, native.size

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        for number in buffers:
            if number not in self._adopted:
                raise DeviceError(f"buffer {number} cannot be forgotten: it was not adopted")
            self._adopted.remove(number)
            del self._buffers[number]

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        target = _find(self._buffers, buffer, "a write")
        with self._device.scoped("writing parameters"):
            write_buffer(self._device, target, offset, data)

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        resolved = self._resolve(copies)
        with self._device.scoped("copying on the GPU"), submission(self._device) as encoder:
            encode_copies(self._c, encoder, resolved)

    def _resolve(self, copies: Sequence[GpuCopy]) -> list[NativeCopy]:
        buffers = self._buffers
        return [
            NativeCopy(
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
                encode_copies(self._c, encoder, [NativeCopy(source, staging, nbytes)])
        return self._read_mapped(staging, self._device.map(staging.handle, nbytes), doing)

    async def _read_mapped(self, staging: NativeBuffer, mapped: Promise, doing: str) -> bytes:
        """Wait until a staging buffer is mapped; returns its bytes."""
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
        self._device.check("uploading constants")
        for source, ordered in group_by_file(transfers):
            total = sum(transfer.region.size for transfer in ordered)
            done, unsubmitted, flushed = 0, 0, Promise(done=True)
            for transfer in ordered:
                for start in range(0, transfer.region.size, CHUNK_BYTES):
                    length = min(CHUNK_BYTES, transfer.region.size - start)
                    await self._put(transfer, start, length, f"{source.name}: uploading constants")
                    done, unsubmitted = done + length, unsubmitted + length
                    if progress is not None:
                        progress("constants", done, total)
                    if unsubmitted >= IN_FLIGHT_BYTES:
                        await self._device.dawn.wait(flushed)
                        self._c.wgpuQueueSubmit(self._device.queue, 0, None)
                        flushed, unsubmitted = self._device.work_done(), 0

    async def _put(self, transfer: Transfer, start: int, length: int, doing: str) -> None:
        stored = to_stored_bytes(await transfer.region.view(start, length), transfer.convert)
        if length == CHUNK_BYTES:
            await asyncio.sleep(0)
        # raises if the buffer was destroyed meanwhile
        target = _find(self._buffers, transfer.buffer, doing)
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
                dispatches=[self._dispatch(command, doing) for command in commands.dispatches],
                readbacks=[
                    (buffer(r.buffer), r.nbytes, r.result_offset) for r in commands.readbacks
                ],
                result_bytes=commands.result_bytes,
                parts=[
                    NativePart(
                        _find(self._plans, part.plan, doing),
                        self._resolve(part.copies),
                        self._resolve(part.copies_after),
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

    def _dispatch(self, command: DispatchCommand, doing: str) -> NativeDispatch:
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
        return NativeDispatch(made.pipeline.handle, group, command.grid)

    # Execution

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        return self._results(self._start("running", run, run.read), "running")

    def profile(self, run: PlanRun) -> Awaitable[tuple[bytes, list[float]]]:
        check_clock(self.info)
        doing = "timing kernels"
        return self._timed(self._start(doing, run, read=True, timed=True), doing)

    def _start(self, doing: str, run: PlanRun, read: bool, timed: bool = False) -> _Started:
        """Submit an execution. Dawn's errors about it are raised when the results are awaited."""
        self._device.check(doing)
        device = self._device
        started = _Started(_find(self._plans, run.plan, doing))
        plan = started.plan
        first, end = run.slice or (0, len(plan.dispatches))
        is_last = end == len(plan.dispatches)
        copies, copies_after = self._resolve(run.copies), self._resolve(run.copies_after)
        try:
            with device.scoped(doing):
                if first == 0:
                    plan.write_uploads(device, run.payload)
                with submission(device) as encoder:
                    if first == 0:
                        plan.encode_before(self._c, encoder, copies)
                    if timed:
                        started.stamps = encode_timed(device, encoder, plan.dispatches)
                    else:
                        plan.encode(self._c, encoder, plan.dispatches[first:end])
                    if is_last:
                        encode_copies(self._c, encoder, copies_after)
                        started.staging = plan.stage(device, encoder) if read else None
        except DeviceError as error:
            started.failure = error
            return started
        if started.staging is not None:
            started.mapped = device.map(started.staging.handle, plan.result_bytes)
        elif read and not is_last:
            started.mapped = device.work_done()
        if not read:
            device.dawn.poll()  # nobody will wait for this run; frees the memory of earlier runs
        return started

    async def _results(self, started: _Started, doing: str) -> bytes:
        if started.failure is not None:
            raise started.failure
        if started.mapped is None:
            return b""
        if started.staging is None:  # after a slice that is not the last
            await self._device.dawn.wait(started.mapped)
            self._device.check(doing)
            return b""
        data = await self._read_mapped(started.staging, started.mapped, doing)
        if not started.plan.closed:
            started.plan.staging.append(started.staging)
        return data

    async def _timed(self, started: _Started, doing: str) -> tuple[bytes, list[float]]:
        data = await self._results(started, doing)
        if started.stamps is None:
            return data, []
        mapped = self._device.map(started.stamps.handle, started.stamps.size)
        stamps = np.frombuffer(await self._read_mapped(started.stamps, mapped, doing), np.uint64)
        nanoseconds = (stamps[1::2] - stamps[::2]).astype(np.int64)
        return data, [int(n) / 1000 for n in nanoseconds]


@dataclass(eq=False)
class _Started:
    """An execution that was submitted, or the error that prevented it."""

    plan: NativePlan
    staging: NativeBuffer | None = None
    mapped: Promise | None = None
    stamps: NativeBuffer | None = None
    failure: DeviceError | None = None


def _find(table: Mapping[int, T], number: int, what: str) -> T:
    if number not in table:
        raise DeviceError(f"{what}: number {number} does not exist, or was destroyed")
    return table[number]
