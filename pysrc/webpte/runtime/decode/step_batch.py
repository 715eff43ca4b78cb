"""Two plans in one submission: a body, and the head that looks at the body's outputs.

Once, with inputs that the host gives; or for several steps, each with its own uploads, where what
the head chooses in one step is the body's input in the next. The uploads of all steps go up as one
block, and each step takes its own from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from webpte.errors import IndexRangeError
from webpte.gpu.device import Device, GpuCopy, PlanCommands, Readback, SubPlan, Upload
from webpte.runtime.base.gpu_tensor import DeviceTensor
from webpte.runtime.execute.device_plan import DevicePlan, Segment
from webpte.runtime.execute.memory import FAULT_BYTES, DelegateMemory, ScratchKey

TOKEN_BYTES = 4
TOKEN = ("token", 16)  # scratch memory for the token that was chosen last

Scratches = Callable[[ScratchKey], Awaitable[int]]


@dataclass(frozen=True, eq=False)
class StepBatch:
    """`rows` are bytes that go up, for each step the body's, then the head's."""

    handle: int
    rows: np.ndarray
    body: Segment
    head: Segment

    @property
    def payload(self) -> np.ndarray:
        return self.rows.reshape(-1)

    def fill(self) -> None:
        """Take what both have in their payloads now, for a chain of one call."""
        first, second = self.body.payload.data, self.head.payload.data
        self.rows[0, : first.size] = first
        self.rows[0, first.size :] = second

    def check(self, result: bytes) -> None:
        """Raise for an index out of range, which is known only now; for a chain of one call."""
        results = result[: self.head.result_bytes], result[self.head.result_bytes :]
        for segment, part in zip((self.head, self.body), results, strict=True):
            if fault := segment.fault_in(part):
                raise IndexRangeError(str(fault))

    def outputs(self, result: bytes) -> list[np.ndarray]:
        """What the head gives, for a chain of one call."""
        return [output.unpack(result) for output in self.head.outputs]


class StepBatches:
    """The chains of one body, each kept for as long as both of its plans are there."""

    def __init__(self, device: Device, memory: DelegateMemory) -> None:
        self._device = device
        self._memory = memory
        self._made: dict[object, StepBatch] = {}

    async def call(self, body: DevicePlan, head: DevicePlan, keep_token: bool) -> StepBatch:
        """Both once. With `keep_token`, what the head chose last is kept for steps that follow."""

        async def make(scratch: Scratches, ends: tuple[Segment, Segment]) -> StepBatch:
            first, second = ends
            kept: tuple[GpuCopy, ...] = ()
            if keep_token:
                chosen = second.outputs[0].tensor
                token = await scratch(TOKEN)
                last = chosen.nbytes - TOKEN_BYTES
                kept = (GpuCopy(chosen.buffer, token, TOKEN_BYTES, source_offset=last),)
            shift = first.payload.data.size
            shifted = (replace(u, payload_offset=u.payload_offset + shift) for u in second.uploads)
            readbacks, nbytes = second.readbacks, second.result_bytes
            if first.faults:  # the word for them is the last thing that it reads back
                readbacks += (replace(first.readbacks[-1], result_offset=nbytes),)
                nbytes += FAULT_BYTES
            parts = (SubPlan(first.handle), SubPlan(second.handle, copies_after=kept))
            uploads = (*first.uploads, *shifted)
            return await self._chain(
                PlanCommands(uploads, (), readbacks, nbytes, parts=parts), ends, 1
            )

        return await self._get(body, head, ("call", keep_token), make)

    async def steps(self, body: DevicePlan, head: DevicePlan, tokens: int, count: int) -> StepBatch:
        """`count` steps, each of which writes the token that was chosen last to buffer `tokens`.

        What comes back are for each step the head's outputs, one after the other.
        """

        async def make(scratch: Scratches, ends: tuple[Segment, Segment]) -> StepBatch:
            first, second = ends
            split = first.payload.data.size
            row = split + second.payload.data.size
            told = [output.tensor for output in second.outputs]
            record = sum(tensor.nbytes for tensor in told)
            block = await scratch(("steps", count * row))
            results = await scratch(("told", count * record))
            token = await scratch(TOKEN)
            chosen = told[0].buffer
            parts: list[SubPlan] = []
            for step in range(count):
                start, latest = step * row, chosen if step else token
                given = GpuCopy(latest, tokens, TOKEN_BYTES)
                noted = _one_after_the_other(told, results, step * record)
                last = (GpuCopy(chosen, token, TOKEN_BYTES),) if step == count - 1 else ()
                parts += (
                    SubPlan(first.handle, (*_from_block(block, first.uploads, start), given)),
                    SubPlan(
                        second.handle,
                        _from_block(block, second.uploads, start + split),
                        (*noted, *last),
                    ),
                )
            nbytes = count * record
            uploads = (Upload(block, 0, count * row),)
            commands = PlanCommands(
                uploads, (), (Readback(results, nbytes, 0),), nbytes, parts=tuple(parts)
            )
            return await self._chain(commands, ends, count)

        return await self._get(body, head, ("steps", tokens, count), make)

    async def _chain(
        self, commands: PlanCommands, ends: tuple[Segment, Segment], count: int
    ) -> StepBatch:
        nbytes = sum(end.payload.data.size for end in ends)
        handle = await self._device.create_plan(commands)
        return StepBatch(handle, np.zeros((count, nbytes), np.uint8), *ends)

    async def _get(
        self,
        body: DevicePlan,
        head: DevicePlan,
        kind: tuple[object, ...],
        make: Callable[[Scratches, tuple[Segment, Segment]], Awaitable[StepBatch]],
    ) -> StepBatch:
        ends = body.segments[-1], head.segments[-1]
        key = (*(end.handle for end in ends), *kind)
        if key in self._made:
            return self._made[key]
        taken: list[ScratchKey] = []

        async def scratch(wanted: ScratchKey) -> int:
            place = await self._memory.take_scratch(wanted)
            taken.append(wanted)
            return place.buffer

        def release() -> None:
            for one in taken:
                self._memory.release_scratch(one)

        try:
            chain = await make(scratch, ends)
        except BaseException:
            release()
            raise

        def destroy() -> None:
            for plan in (body, head):
                del plan.made_of_it[key]
            del self._made[key]
            self._device.destroy_plan(chain.handle)
            release()

        body.made_of_it[key] = head.made_of_it[key] = destroy
        self._made[key] = chain
        return chain


def _one_after_the_other(
    tensors: Sequence[DeviceTensor], target: int, offset: int
) -> list[GpuCopy]:
    copies = []
    for tensor in tensors:
        copies.append(GpuCopy(tensor.buffer, target, tensor.nbytes, target_offset=offset))
        offset += tensor.nbytes
    return copies


def _from_block(block: int, uploads: Sequence[Upload], start: int) -> tuple[GpuCopy, ...]:
    """Uploads as copies from a block of bytes that went up before."""
    return tuple(
        GpuCopy(block, upload.buffer, upload.nbytes, source_offset=start + upload.payload_offset)
        for upload in uploads
    )
