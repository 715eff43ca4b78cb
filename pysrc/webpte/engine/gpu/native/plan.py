"""Plans as calls of Dawn: resolved once, encoded in every run."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.engine.gpu.native.dawn import DawnDevice, Owned, array_of
from webpte.errors import DeviceError

MAX_TIMED = 2048  # dispatches per query set: WebGPU's limit is 4096 queries


class NativeBuffer(Owned):
    """A `WGPUBuffer`. Its memory is freed by `destroy`, or with the last reference to it.

    Other code wraps its buffers as `NativeBuffer(c, handle)`, which takes over a reference.
    """

    def __init__(self, c: Any, handle: Any) -> None:
        super().__init__(handle, c.wgpuBufferRelease)
        self._c = c
        self.size = int(c.wgpuBufferGetSize(handle))
        self.usage = int(c.wgpuBufferGetUsage(handle))

    def destroy(self) -> None:
        """Free the memory; using the buffer afterwards is an error."""
        self._c.wgpuBufferDestroy(self.handle)


def make_buffer(device: DawnDevice, nbytes: int, *usages: str) -> NativeBuffer:
    c, usage = device.c, 0
    for name in usages:
        usage |= getattr(c, f"WGPUBufferUsage_{name}")
    descriptor = c.WGPUBufferDescriptor(size=nbytes, usage=usage)
    return NativeBuffer(c, c.wgpuDeviceCreateBuffer(device.handle, descriptor))


def write_buffer(device: DawnDevice, buffer: NativeBuffer, offset: int, data: np.ndarray) -> None:
    flat = np.ascontiguousarray(data)
    address = flat.__array_interface__["data"][0]
    device.c.wgpuQueueWriteBuffer(device.queue, buffer.handle, offset, address, flat.nbytes)


@contextmanager
def submission(device: DawnDevice) -> Iterator[Any]:
    """A command encoder whose commands are submitted at the end of the block."""
    c = device.c
    encoder = Owned(
        c.wgpuDeviceCreateCommandEncoder(device.handle, None), c.wgpuCommandEncoderRelease
    )
    yield encoder.handle
    commands = Owned(c.wgpuCommandEncoderFinish(encoder.handle, None), c.wgpuCommandBufferRelease)
    c.wgpuQueueSubmit(device.queue, 1, array_of(c.WGPUCommandBuffer, [commands.handle]))


@dataclass(frozen=True)
class NativeCopy:
    """A copy from a buffer to another."""

    source: NativeBuffer
    target: NativeBuffer
    nbytes: int
    source_offset: int = 0
    target_offset: int = 0


def encode_copies(c: Any, encoder: Any, copies: Iterable[NativeCopy]) -> None:
    for copy in copies:
        c.wgpuCommandEncoderCopyBufferToBuffer(
            encoder,
            copy.source.handle,
            copy.source_offset,
            copy.target.handle,
            copy.target_offset,
            copy.nbytes,
        )


@dataclass(frozen=True)
class NativeDispatch:
    """A dispatch: the handle of its pipeline, its bind group and grid."""

    pipeline: Any
    group: Owned
    grid: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class NativePart:
    """A sub-plan: another plan with copies before and after it."""

    plan: NativePlan
    copies: list[NativeCopy]
    copies_after: list[NativeCopy]

    def encode(self, c: Any, encoder: Any) -> None:
        self.plan.encode_before(c, encoder, self.copies)
        self.plan.encode(c, encoder, self.plan.dispatches)
        encode_copies(c, encoder, self.copies_after)


@dataclass(eq=False)
class NativePlan:
    """A plan with handles in place of numbers. `staging` has free buffers for results."""

    uploads: list[tuple[NativeBuffer, int, int]]  # buffer, offset in the payload, bytes
    clears: list[NativeBuffer]
    dispatches: list[NativeDispatch]
    readbacks: list[tuple[NativeBuffer, int, int]]  # buffer, bytes, offset in the results
    result_bytes: int
    parts: list[NativePart] = field(default_factory=list)
    closed: bool = False
    staging: list[NativeBuffer] = field(default_factory=list)

    def close(self) -> None:
        """Free the staging buffers; a run in flight still gets its results."""
        self.closed = True
        self.staging.clear()

    def write_uploads(self, device: DawnDevice, payload: np.ndarray) -> None:
        payload = payload.reshape(-1).view(np.uint8)
        for buffer, offset, nbytes in self.uploads:
            if offset + nbytes > payload.nbytes:
                raise DeviceError(f"an upload reads beyond a payload of {payload.nbytes} bytes")
            write_buffer(device, buffer, 0, payload[offset : offset + nbytes])

    def encode_before(self, c: Any, encoder: Any, copies: Iterable[NativeCopy]) -> None:
        """Encode the commands before the dispatches: clears, copies and parts."""
        for buffer in self.clears:
            c.wgpuCommandEncoderClearBuffer(encoder, buffer.handle, 0, buffer.size)
        encode_copies(c, encoder, copies)
        for part in self.parts:
            part.encode(c, encoder)

    def encode(self, c: Any, encoder: Any, dispatches: Sequence[NativeDispatch]) -> None:
        """Encode these of the plan's dispatches in a single pass."""
        if not dispatches:
            return
        current, compute = None, begin_pass(c, encoder, None)
        set_group = c.wgpuComputePassEncoderSetBindGroup
        run = c.wgpuComputePassEncoderDispatchWorkgroups
        for dispatch in dispatches:
            if dispatch.pipeline is not current:
                current = dispatch.pipeline
                c.wgpuComputePassEncoderSetPipeline(compute.handle, current)
            set_group(compute.handle, 0, dispatch.group.handle, 0, None)
            run(compute.handle, *dispatch.grid)
        c.wgpuComputePassEncoderEnd(compute.handle)

    def stage(self, device: DawnDevice, encoder: Any) -> NativeBuffer | None:
        """Encode the copies of results to a staging buffer and return it; None without results."""
        if not self.result_bytes:
            return None
        spare = self.staging
        staging = spare.pop() if spare else make_staging(device, self.result_bytes)
        copies = (NativeCopy(buffer, staging, n, 0, offset) for buffer, n, offset in self.readbacks)
        encode_copies(device.c, encoder, copies)
        return staging


def make_staging(device: DawnDevice, nbytes: int) -> NativeBuffer:
    return make_buffer(device, nbytes, "MapRead", "CopyDst")


def begin_pass(c: Any, encoder: Any, timestamps: Any) -> Owned:
    descriptor = c.WGPUComputePassDescriptor()
    if timestamps is not None:
        descriptor.timestampWrites = ctypes.pointer(timestamps)
    return Owned(
        c.wgpuCommandEncoderBeginComputePass(encoder, descriptor), c.wgpuComputePassEncoderRelease
    )


def encode_timed(
    device: DawnDevice, encoder: Any, dispatches: Sequence[NativeDispatch]
) -> NativeBuffer | None:
    """Encode a timed pass per dispatch; returns the staging buffer of the timestamps."""
    if not dispatches:
        return None
    c, nbytes = device.c, 16 * len(dispatches)
    resolved = make_buffer(device, nbytes, "QueryResolve", "CopySrc")
    for start in range(0, len(dispatches), MAX_TIMED):
        part = dispatches[start : start + MAX_TIMED]
        descriptor = c.WGPUQuerySetDescriptor(type=c.WGPUQueryType_Timestamp, count=2 * len(part))
        queries = Owned(
            c.wgpuDeviceCreateQuerySet(device.handle, descriptor), c.wgpuQuerySetRelease
        )
        for index, dispatch in enumerate(part):
            stamps = c.WGPUComputePassTimestampWrites(queries.handle, 2 * index, 2 * index + 1)
            compute = begin_pass(c, encoder, stamps)
            c.wgpuComputePassEncoderSetPipeline(compute.handle, dispatch.pipeline)
            c.wgpuComputePassEncoderSetBindGroup(compute.handle, 0, dispatch.group.handle, 0, None)
            c.wgpuComputePassEncoderDispatchWorkgroups(compute.handle, *dispatch.grid)
            c.wgpuComputePassEncoderEnd(compute.handle)
        c.wgpuCommandEncoderResolveQuerySet(
            encoder, queries.handle, 0, 2 * len(part), resolved.handle, 16 * start
        )
    staging = make_staging(device, nbytes)
    encode_copies(c, encoder, [NativeCopy(resolved, staging, nbytes)])
    return staging
