"""A device that computes nothing and writes down everything: tests of planning need no GPU."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import numpy as np

from webpte.errors import OutOfMemoryError
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


class RecordingDevice:
    """`log` has one (name, detail) entry per call, in order; outputs are zeros."""

    def __init__(self, memory_limit: int | None = None, features: tuple[str, ...] = ()) -> None:
        self.info = DeviceInfo(kind="recording", features=features)
        self.interop_calls = 0
        self.lost = False
        self.log: list[tuple[str, object]] = []
        self.buffers: dict[int, int] = {}  # id to bytes
        self.pipelines: dict[PipelineSpec, int] = {}
        self.plans: dict[int, PlanCommands] = {}
        self.contents: dict[int, bytes] = {}  # the first MAX_KEPT bytes of each transfer
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
        self, plan: int, payload: np.ndarray, copies: Sequence[GpuCopy] = (), read: bool = True
    ) -> Awaitable[bytes]:
        self._record("run", (plan, payload.tobytes(), tuple(copies), read))
        result = bytes(self.plans[plan].result_bytes) if read else b""

        async def collect() -> bytes:
            return result

        return collect()

    async def profile(self, plan: int) -> list[float]:
        self._record("profile", plan)
        return [0.0] * len(self.plans[plan].dispatches)
