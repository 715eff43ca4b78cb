"""A device that computes nothing and writes down everything: tests of planning need no GPU."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.errors import InputError, OutOfMemoryError
from webpte.gpu.device import (
    DeviceInfo,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    Progress,
    Transfer,
)

# Of each transfer this much is kept to look at; constants can be larger than the memory.
MAX_KEPT = 1 << 20


@dataclass(frozen=True)
class RecordedBuffer:
    """Stands for a JavaScript `GPUBuffer`."""

    size: int
    copyable: bool = True


class RecordingDevice:
    """`log` has one (name, detail) entry per call, in order; outputs are zeros.

    What is written to a buffer, or copied to it from one with known contents, can be read back.
    """

    def __init__(self, memory_limit: int | None = None, features: tuple[str, ...] = ()) -> None:
        self.info = DeviceInfo(kind="recording", features=features)
        self.interop_calls = 0
        self.lost = False
        self.log: list[tuple[str, object]] = []
        self.buffers: dict[int, int] = {}  # id to bytes
        self.pipelines: dict[PipelineSpec, int] = {}
        self.plans: dict[int, PlanCommands] = {}
        self.contents: dict[int, bytes] = {}  # the first MAX_KEPT bytes of each transfer
        self.written: dict[int, bytes] = {}  # by `write`, and by copies from what it wrote to
        self.adopted: dict[int, RecordedBuffer] = {}
        self._memory_limit = memory_limit
        self._next_id = 1

    def _record(self, name: str, detail: object) -> None:
        self.interop_calls += 1
        self.log.append((name, detail))

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    async def create_buffers(self, sizes: Sequence[int], uniform: bool = False) -> list[int]:
        self._record("create_buffers", (tuple(sizes), uniform))
        total = sum(self.buffers.values()) + sum(sizes)
        if self._memory_limit is not None and total > self._memory_limit:
            raise OutOfMemoryError(f"{total} bytes are over the limit of {self._memory_limit}")
        ids = [self._new_id() for _ in sizes]
        self.buffers |= dict(zip(ids, sizes, strict=True))
        return ids

    def destroy_buffers(self, buffers: Sequence[int]) -> None:
        self._record("destroy_buffers", tuple(buffers))
        for buffer in buffers:
            del self.buffers[buffer]
            self.contents.pop(buffer, None)
            self.written.pop(buffer, None)

    @property
    def native(self) -> Any:
        return self

    def native_buffer(self, buffer: int) -> Any:
        return self.adopted.get(buffer) or RecordedBuffer(self.buffers[buffer])

    def is_native_buffer(self, value: object) -> bool:
        return isinstance(value, RecordedBuffer)

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        self._record("adopt_buffer", native)
        if not self.is_native_buffer(native) or not native.copyable:
            raise InputError(f"{native} is not a buffer that can be copied from")
        adopted = self._new_id()
        self.adopted[adopted] = native
        return adopted, native.size

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        self._record("forget_buffers", tuple(buffers))
        for buffer in buffers:
            del self.adopted[buffer]

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        self._record("create_pipelines", tuple(specs))
        for spec in specs:
            if spec not in self.pipelines:
                self.pipelines[spec] = self._new_id()
        return [self.pipelines[spec] for spec in specs]

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        self._record("write", (buffer, offset, data.nbytes))
        old = self.written.get(buffer, b"").ljust(offset, b"\0")
        self.written[buffer] = old[:offset] + data.tobytes() + old[offset + data.nbytes :]

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        self._record("read", (buffer, nbytes))
        return _ready(self.written.get(buffer, b"")[:nbytes].ljust(nbytes, b"\0"))

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        self._record("transfer", tuple(transfers))
        for transfer in transfers:
            kept = min(transfer.region.size, MAX_KEPT)
            self.contents[transfer.buffer] = await transfer.region.read(0, kept)

    async def create_plan(self, commands: PlanCommands) -> int:
        self._record("create_plan", commands)
        plan = self._new_id()
        self.plans[plan] = commands
        return plan

    def destroy_plan(self, plan: int) -> None:
        self._record("destroy_plan", plan)
        del self.plans[plan]

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
        self._record("run", (plan, payload.tobytes(), tuple(copies), read, tuple(kept), watched))
        for copy in (*copies, *kept):
            assert copy.source in self.buffers or copy.source in self.adopted, "a freed buffer"
            if copy.source in self.written:
                self.written[copy.target] = self.written[copy.source][: copy.nbytes]
        return _ready(bytes(self.plans[plan].result_bytes) if read else b"")

    async def profile(
        self,
        plan: int,
        payload: np.ndarray,
        copies: Sequence[GpuCopy] = (),
        *,
        kept: Sequence[GpuCopy] = (),
        watched: bool = False,
    ) -> tuple[bytes, list[float]]:
        result = await self.run(plan, payload, copies, kept=kept, watched=watched)
        return result, [0.0] * len(self.plans[plan].dispatches)

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        self._record("copy", tuple(copies))


async def _ready(data: bytes) -> bytes:
    return data
