"""Two plans in one submission: a body, and the sampler that reads the body's output.

A batch is a single step with inputs from the host, or several steps, where the token that the
sampler returns in a step is the body's input in the next. The uploads of all steps go up as one
block, from which each step copies its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.gpu.device import Device, GpuCopy, PlanCommands, Readback, SubPlan, Upload
from webpte.engine.run.device_plan import DevicePlan, Segment
from webpte.engine.run.memory import INDEX_FLAG_BYTES, DelegateMemory
from webpte.errors import IndexRangeError
from webpte.llm.decode.combined_plan import CombinedPlans, Scratches

TOKEN_BYTES = 4
TOKEN = ("token", 16)  # scratch memory for the token that was sampled last


@dataclass(frozen=True, eq=False)
class StepBatch:
    """A plan of one or several steps.

    The `payload` has each step's uploads, body first, then sampler; `rows` are a view of the
    payload, by step.
    """

    handle: int
    payload: np.ndarray
    rows: np.ndarray
    body: Segment
    sampler: Segment

    def fill(self) -> None:
        """Copy the payloads of both plans, for a batch of one step."""
        first, second = self.body.payload.data, self.sampler.payload.data
        self.rows[0, : first.size] = first
        self.rows[0, first.size :] = second

    def check(self, result: bytes) -> None:
        """Raise IndexRangeError if an index was out of range, for a batch of one step."""
        results = result[: self.sampler.result_bytes], result[self.sampler.result_bytes :]
        for segment, part in zip((self.sampler, self.body), results, strict=True):
            if fault := segment.raised_flag(part):
                raise IndexRangeError(str(fault))

    def outputs(self, result: bytes) -> list[np.ndarray]:
        """Return the sampler's outputs, for a batch of one step."""
        return [output.unpack(result) for output in self.sampler.outputs]


class StepBatches:
    """The step batches of a body."""

    def __init__(self, device: Device, memory: DelegateMemory) -> None:
        self._device = device
        self._plans = CombinedPlans[StepBatch](device, memory)

    async def call(self, body: DevicePlan, sampler: DevicePlan, keep_token: bool) -> StepBatch:
        """Return a batch of a single step; `keep_token` keeps its last token for later steps."""

        first, second = ends = body.segments[-1], sampler.segments[-1]

        async def build(scratch: Scratches) -> StepBatch:
            kept: tuple[GpuCopy, ...] = ()
            if keep_token:
                sampled = second.outputs[0].tensor
                token = await scratch(TOKEN)
                last = sampled.nbytes - TOKEN_BYTES
                kept = (GpuCopy(sampled.buffer, token, TOKEN_BYTES, source_offset=last),)
            shift = first.payload.data.size
            shifted = (replace(u, payload_offset=u.payload_offset + shift) for u in second.uploads)
            readbacks, nbytes = second.readbacks, second.result_bytes
            if first.faults:  # the fault word is the last readback
                readbacks += (replace(first.readbacks[-1], result_offset=nbytes),)
                nbytes += INDEX_FLAG_BYTES
            parts = (SubPlan(first.handle), SubPlan(second.handle, copies_after=kept))
            uploads = (*first.uploads, *shifted)
            return await self._create(
                PlanCommands(uploads, (), readbacks, nbytes, parts=parts), ends, 1
            )

        return await self._plans.get((body, sampler), ("call", keep_token), build)

    async def steps(
        self, body: DevicePlan, sampler: DevicePlan, tokens: int, count: int
    ) -> StepBatch:
        """Return a batch of `count` steps, each with the last sampled token in buffer `tokens`.

        The batch's result is the sampler's outputs, step by step.
        """

        first, second = ends = body.segments[-1], sampler.segments[-1]

        async def build(scratch: Scratches) -> StepBatch:
            split = first.payload.data.size
            row = split + second.payload.data.size
            outputs = [output.tensor for output in second.outputs]
            record = sum(tensor.nbytes for tensor in outputs)
            block = await scratch(("steps", count * row))
            results = await scratch(("sampled", count * record))
            token = await scratch(TOKEN)
            sampled = outputs[0].buffer
            parts: list[SubPlan] = []
            for step in range(count):
                start, latest = step * row, sampled if step else token
                given = GpuCopy(latest, tokens, TOKEN_BYTES)
                kept = pack_outputs(outputs, results, step * record)
                last = (GpuCopy(sampled, token, TOKEN_BYTES),) if step == count - 1 else ()
                parts += (
                    SubPlan(first.handle, (*from_block(block, first.uploads, start), given)),
                    SubPlan(
                        second.handle,
                        from_block(block, second.uploads, start + split),
                        (*kept, *last),
                    ),
                )
            nbytes = count * record
            uploads = (Upload(block, 0, count * row),)
            commands = PlanCommands(
                uploads, (), (Readback(results, nbytes, 0),), nbytes, parts=tuple(parts)
            )
            return await self._create(commands, ends, count)

        return await self._plans.get((body, sampler), ("steps", tokens, count), build)

    async def _create(
        self, commands: PlanCommands, ends: tuple[Segment, Segment], count: int
    ) -> StepBatch:
        rows = np.zeros((count, sum(end.payload.data.size for end in ends)), np.uint8)
        handle = await self._device.create_plan(commands)
        return StepBatch(handle, rows.reshape(-1), rows, *ends)


def pack_outputs(tensors: Sequence[DeviceTensor], target: int, offset: int) -> list[GpuCopy]:
    """Return copies of tensors into a buffer, in sequence."""
    copies = []
    for tensor in tensors:
        copies.append(GpuCopy(tensor.buffer, target, tensor.nbytes, target_offset=offset))
        offset += tensor.nbytes
    return copies


def from_block(block: int, uploads: Sequence[Upload], start: int) -> tuple[GpuCopy, ...]:
    """Return uploads as copies from a block that was uploaded before."""
    return tuple(
        GpuCopy(block, upload.buffer, upload.nbytes, source_offset=start + upload.payload_offset)
        for upload in uploads
    )
