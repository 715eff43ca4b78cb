"""Steps of several sequences at once: a batched model and its sampler in one submission.

A step is a number of rows (tokens with their places) and the rows after which tokens are sampled.
Tokens stay in the history on the GPU, so a step can be submitted before the tokens of the step
before it are known. Rows are padded to a few sizes, each of which is planned once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from webpte.engine.call.call import count_submission
from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.gpu.device import GpuCopy, PlanRun
from webpte.engine.ops.slots.slot_cache import KNOWN_BY_HISTORY, NO_SLOT, PLACE_WORDS
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import Input, OutputPlacement
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.run.request import RunRequest
from webpte.errors import UnsupportedError
from webpte.llm.decode.batched_graph import BatchedGraph
from webpte.llm.decode.batched_sampler import HISTORY, BatchedSamplerKind
from webpte.llm.decode.sampling import SamplerSettings
from webpte.llm.decode.step_batch import StepBatch, StepBatches


@dataclass(frozen=True)
class BatchRow:
    """A token of a step, in its place; None is the token that was sampled for that place.

    With `settings`, a token is sampled after the row.
    """

    slot: int
    position: int
    token: int | None
    settings: SamplerSettings | None = None


class BatchedSteps(Protocol):
    """The steps of a batched model on a device."""

    slots: int
    rows: int  # most rows of a step
    positions: int  # positions of a slot
    vocabulary: int

    async def submit(self, rows: Sequence[BatchRow]) -> asyncio.Future[list[int]]:
        """Submit a step; the result are the sampled tokens, in the order of the rows."""

    async def copy_prefix(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of a slot to another, after all submitted steps."""

    def close(self) -> None:
        """Free the memory on the device, once the steps under way have ended."""


@dataclass(frozen=True)
class _Packed:
    """The arrays of a step, padded."""

    tokens: np.ndarray  # int32 [1, rows]
    places: np.ndarray  # int32 [rows, 4]
    picks: np.ndarray  # int32 [picks]: rows after which tokens are sampled
    sampled: np.ndarray  # int32 [picks, 4]: their places
    settings: list[SamplerSettings]

    @classmethod
    def of(cls, rows: Sequence[BatchRow], most: int, slots: int) -> _Packed:
        picked = [at for at, row in enumerate(rows) if row.settings is not None]
        count, picks = padded(len(rows), most), padded(len(picked), slots)
        tokens, places = np.zeros((1, count), np.int32), no_places(count)
        given = [KNOWN_BY_HISTORY if row.token is None else row.token for row in rows]
        tokens[0, : len(rows)] = given
        places[: len(rows), :2] = [(row.position, row.slot) for row in rows]
        index, sampled = np.zeros(picks, np.int32), no_places(picks)
        index[: len(picked)] = picked
        sampled[: len(picked)] = places[picked]
        sampled[: len(picked), 0] += 1
        settings = [row.settings for row in rows if row.settings is not None]
        return cls(tokens, places, index, sampled, settings)


def padded(count: int, most: int) -> int:
    """Return the number of rows padded to a power of two, but at most to the largest size."""
    return min(1 << max(count - 1, 0).bit_length(), most)


def no_places(count: int) -> np.ndarray:
    """Return the places of padding, int32 (count, 4)."""
    places = np.zeros((count, PLACE_WORDS), np.int32)
    places[:, 1] = NO_SLOT
    return places


class GpuBatchedSteps:
    """The steps of a batched model on a GPU."""

    def __init__(
        self, body: GpuDelegate, batched: BatchedGraph, slots: int, library: ShaderLibrary
    ) -> None:
        """Raise UnsupportedError if ops of the body, whose state is separate, run on the host."""
        if body.host_ops:
            raise UnsupportedError(f"ops run on the host: {', '.join(body.host_ops)}")
        self.body = body
        self.slots, self.rows = slots, body.graph.tensor(body.graph.inputs[0]).dims[1]
        self.positions, self.vocabulary = batched.positions, batched.vocabulary
        self.samplers: dict[BatchedSamplerKind, GpuDelegate] = {}
        self._widest = BatchedSamplerKind()
        self._history = body.graph.tensor(batched.history)
        self._state = [body.graph.tensor(i) for i in (*batched.caches, batched.history)]
        self._library = library
        self._batches = StepBatches(body.device, body.memory)

    @property
    def delegates(self) -> list[GpuDelegate]:
        """The body and all samplers that have been built."""
        return [] if self.body.lifetime.ended else [self.body, *self.samplers.values()]

    async def submit(self, rows: Sequence[BatchRow]) -> asyncio.Future[list[int]]:
        """Submit a step; the result are the sampled tokens, in the order of the rows."""
        body, packed = self.body, _Packed.of(rows, self.rows, self.slots)
        with body.lifetime.lease():
            async with body.turn():
                batch = await self._filled(packed)
                body.lifetime.check()
                running = body.device.run(PlanRun(batch.handle, batch.payload))
                count_submission()
            return body.lifetime.lease_for(self._tokens(running, batch, len(packed.settings)))

    async def copy_prefix(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of a slot to another, after all submitted steps.

        WebGPU copies between two different buffers only, so rows go by a third buffer.
        """
        body = self.body
        with body.lifetime.lease():
            async with body.turn():
                slots = [tensor.storage_bytes // self.slots for tensor in self._state]
                by = (await body.memory.take_scratch(("prefix", aligned(max(slots))))).buffer
                try:
                    copies = list[GpuCopy]()
                    for tensor, slot in zip(self._state, slots, strict=True):
                        buffer = body.memory.buffer_of(tensor.id)
                        nbytes = slot // tensor.dims[1] * count
                        copies.append(GpuCopy(buffer, by, nbytes, source_offset=source * slot))
                        copies.append(GpuCopy(by, buffer, nbytes, target_offset=target * slot))
                    body.device.copy(copies)
                    count_submission()
                finally:
                    body.memory.release_scratch(("prefix", aligned(max(slots))))

    async def _filled(self, packed: _Packed) -> StepBatch:
        kind = BatchedSamplerKind.of(packed.settings)
        if kind.sampled:  # flags needed once stay on, so that few kinds are ever built
            kind = self._widest = self._widest.with_flags_of(kind)
        sampler = await self._sampler(kind)
        given: list[Input] = [packed.tokens, packed.places, packed.picks]
        first = await self.body.prepare(RunRequest(given, OutputPlacement.BORROWED))
        lent = [output.tensor for output in first.plan.segments[-1].outputs]
        tensor = sampler.graph.tensor(HISTORY)
        buffer = sampler.memory.buffer_of(HISTORY)
        history = DeviceTensor(buffer, tensor.dtype, tensor.dtype.storage, tensor.dims)
        more = kind.inputs(packed.settings, len(packed.picks))
        second = await sampler.prepare(RunRequest([*lent, packed.sampled, history, *more]))
        batch = await self._batches.call(first.plan, second.plan, keep_token=False)
        batch.fill()
        return batch

    async def _sampler(self, kind: BatchedSamplerKind) -> GpuDelegate:
        if kind not in self.samplers:
            (logits,) = self.body.outputs
            graph, memory = kind.graph(logits, self._history), self.body.memory
            borrowed = {
                graph.inputs[0]: memory.buffer_of(logits.id),
                HISTORY: memory.buffer_of(self._history.id),
            }
            self.samplers[kind] = await GpuDelegate.create(
                graph,
                self.body.device,
                self._library,
                lifetime=self.body.lifetime,
                borrowed=borrowed,
                info=self.body.info,
            )
        return self.samplers[kind]

    async def _tokens(self, running: Awaitable[bytes], batch: StepBatch, count: int) -> list[int]:
        data = await running
        batch.check(data)
        (tokens,) = batch.outputs(data)
        return [int(token) for token in tokens.reshape(-1)[:count]]

    def close(self) -> None:
        """Free the memory on the device, once the steps under way have ended."""
        self.body.lifetime.end("the batch was closed")


class NumpyBatchedSteps:
    """The steps of a batched model on NumPy: each runs to its end at once."""

    def __init__(self, like: NumpyDelegate, batched: BatchedGraph, slots: int) -> None:
        graph = batched.graph
        state = {
            i: np.zeros(graph.tensor(i).dims, graph.tensor(i).dtype.numpy)
            for i in (*batched.caches, batched.history)
        }
        self._body = like.with_graph(graph, state)
        self.slots, self.rows = slots, graph.tensor(graph.inputs[0]).dims[1]
        self.positions, self.vocabulary = batched.positions, batched.vocabulary
        self._history, self._state = batched.history, tuple(state)

    async def submit(self, rows: Sequence[BatchRow]) -> asyncio.Future[list[int]]:
        """Submit a step; the result are the sampled tokens, in the order of the rows."""
        packed, tokens = _Packed.of(rows, self.rows, self.slots), list[int]()
        given = [packed.tokens, packed.places, packed.picks]
        (logits,) = await self._body.run(RunRequest(given))
        history = self._body.state_of(self._history)
        by_row = zip(logits.reshape(len(packed.picks), -1), packed.sampled, strict=True)
        for (row, (position, slot, *_)), settings in zip(by_row, packed.settings, strict=False):
            before = history[slot, :position].reshape(-1).tolist()
            token = settings.on_host(row, before).token
            history[slot, position] = token
            tokens.append(token)
        found: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        found.set_result(tokens)
        return found

    async def copy_prefix(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of a slot to another, after all submitted steps."""
        for value_id in self._state:
            held = self._body.state_of(value_id)
            held[target, :count] = held[source, :count]

    def close(self) -> None:
        """Do nothing: all memory is Python's."""
