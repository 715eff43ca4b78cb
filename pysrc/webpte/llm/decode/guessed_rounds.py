"""Rounds of speculative decoding that run on the GPU as a whole, several in one submission.

A draft on the same GPU guesses the tokens, or a lookup in the conversation does. The host learns
afterwards how many guesses of each round were right, while the next rounds are under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from webpte.engine.call.call import count_submission
from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.gpu.device import PlanRun
from webpte.engine.ops.sampling.next_round import accepted_of
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import Input, OutputPlacement
from webpte.engine.run.request import RunRequest
from webpte.errors import GraphError, OutOfMemoryError, UnsupportedError
from webpte.llm.decode.combined_plan import CombinedPlans, Scratches
from webpte.llm.decode.decode_steps import StepPacker
from webpte.llm.decode.round_batch import (
    HISTORY,
    POSITION,
    SAMPLED,
    TOKENS,
    WORD_BYTES,
    DraftSteps,
    RoundBatch,
    RoundParts,
    build_rounds,
    next_round_graph,
)
from webpte.llm.decode.sampled_delegate import SampledDelegate
from webpte.llm.decode.sampler_graph import tokens_of_rows
from webpte.llm.decode.sampling import SampledToken

NO_TOKEN = -1
MOST_ROUNDS = 4  # rounds in one submission
IN_FLIGHT = 2  # submissions under way


@dataclass(frozen=True)
class Round:
    """A round that has run: the tokens that follow, and the number of guesses that were right."""

    sampled: list[SampledToken]
    accepted: int


@dataclass(frozen=True)
class PendingRounds:
    """Rounds that were submitted; `found` are their results, once the rounds have run."""

    count: int
    found: asyncio.Future[list[Round]]


@dataclass(frozen=True)
class RoundStart:
    """The conversation before the first round; `position` is the position of its last token."""

    position: int
    context: Sequence[int]


class GuessedRounds:
    """Rounds of `count` tokens each: guesses, checked by a target.

    body    the target's delegate, whose caches `target` writes, too
    target  the body, changed to sample after each of `count` tokens
    draft   the draft's delegate, with a sampler; None: a lookup in up to `room` tokens
    """

    def __init__(
        self,
        body: GpuDelegate,
        target: SampledDelegate,
        draft: SampledDelegate | None,
        count: int,
        room: int,
        library: ShaderLibrary,
    ) -> None:
        self.lead: GpuDelegate | None = None  # computes where rounds begin; built by the first call
        self._body, self._target, self._draft = body, target, draft
        self._count = count
        self._room = 0 if draft else room
        self._library = library
        self._batches = CombinedPlans[RoundBatch](body.device, body.memory)

    @property
    def delegates(self) -> list[GpuDelegate]:
        """The delegate that runs between rounds, once it is built."""
        return [] if self.lead is None else [self.lead]

    @property
    def ended(self) -> bool:
        """Whether the draft's program was closed or rebuilt."""
        return self._draft is not None and self._draft.body.lifetime.ended

    async def submit(
        self,
        places: range,
        rounds: int,
        start: RoundStart | None,
        packers: Sequence[StepPacker],
    ) -> PendingRounds | str:
        """Submit rounds, the first of which begins at one of these places; or return why not.

        `start` is where the first round begins; None: where the round before it ends, which is
        under way. `packers` are the packer of the target and, if there is a draft, the packer of
        the draft.
        """
        body, bodies = self._body, {self._body, *([self._draft.body] if self._draft else [])}
        lifetimes = {one.lifetime for one in bodies}
        with ExitStack() as leases:
            for lifetime in lifetimes:
                leases.enter_context(lifetime.lease())
            async with AsyncExitStack() as turns:
                # In the same order for all models: two models could be each other's drafts.
                for one in sorted(bodies, key=id):
                    await turns.enter_async_context(one.turn())
                await turns.enter_async_context(self._target.body.turn())
                started = perf_counter()
                try:
                    parts = await self._prepare(places, rounds, packers)
                    if isinstance(parts, str):
                        return parts
                    batch = await self._filled(parts, places, rounds, start)
                except (GraphError, UnsupportedError, OutOfMemoryError) as error:
                    return f"rounds of {self._count} tokens cannot be built: {error}"
                for lifetime in lifetimes:
                    lifetime.check()
                running = body.device.run(PlanRun(batch.handle, batch.payload))
                count_submission()
                submitted = perf_counter()
            running_rounds = self._rounds(running, batch, parts.outputs, (started, submitted))
            found = body.lifetime.lease_for(running_rounds)
            for lifetime in lifetimes - {body.lifetime}:
                lifetime.lease_for(found)
            return PendingRounds(rounds, found)

    async def _prepare(
        self, places: range, rounds: int, packers: Sequence[StepPacker]
    ) -> RoundParts | str:
        """Pack one reusable step per model, valid at every position of the rounds."""
        models = (self._target, *([self._draft] if self._draft else []))
        tokens = [one.body.memory.buffer_of(one.body.graph.inputs[0]) for one in models]
        found = []
        positions = self._positions(places, rounds)
        for packer, buffer, places_of in zip(packers, tokens, positions, strict=False):
            packed = await packer.pack(places_of[0], buffer)
            if isinstance(packed, str):
                return packed
            if packed.high < places_of[-1]:
                return f"steps from position {places_of[0]} on do not all run by the same commands"
            found.append(packed)
        draft = DraftSteps(found[1], tokens[1]) if self._draft else None
        lead = await self._next_round(sum(one.row.size for one in found) // WORD_BYTES)
        tensors: list[Input] = [
            DeviceTensor(lead.memory.buffer_of(i), t.dtype, t.dtype.storage, t.dims)
            for i in lead.graph.inputs[:-1]
            for t in [lead.graph.tensor(i)]
        ]
        request = RunRequest([*tensors, places[0]], OutputPlacement.BORROWED)
        run = await lead.prepare(request)
        return RoundParts(lead, run.plan, draft, found[0], tokens[0])

    def _positions(self, places: range, rounds: int) -> tuple[range, range]:
        """Return the positions at which steps of the target and of the draft may run."""
        last = places[-1] + rounds * self._count
        return range(places[0], last - self._count + 1), range(places[0], last)

    async def _next_round(self, words: int) -> GpuDelegate:
        """Return the delegate that computes where rounds begin, built if need be.

        `words` is the size of the upload for a step of each model.
        """
        positions = IN_FLIGHT * MOST_ROUNDS * self._count
        if self.lead is None:
            self.lead = await GpuDelegate.create(
                next_round_graph(self._count, positions, words, self._room),
                self._body.device,
                self._library,
                lifetime=self._body.lifetime,
                info=self._body.info,
            )
        return self.lead

    async def _filled(
        self, parts: RoundParts, places: range, rounds: int, start: RoundStart | None
    ) -> RoundBatch:
        """Return the plan of these rounds, with its uploads filled in."""

        async def build(scratch: Scratches) -> RoundBatch:
            return await build_rounds(
                self._body.device, parts, scratch, self._count, rounds, start is not None
            )

        batch = await self._batches.get(parts.plans, (rounds, start is not None), build)
        table, split = batch.table.view(np.uint8), parts.draft_bytes
        targets, drafts = self._positions(places, rounds)
        if parts.draft is not None:
            parts.draft.step.fill(table[: len(drafts), :split], places[0])
        parts.target.fill(table[: len(targets), split:], places[0])
        (lead,) = parts.next_round.segments
        batch.first[:] = lead.payload.data
        if start is not None:
            # As after a round whose first guess was wrong: the next round begins after a single
            # token.
            batch.start[TOKENS][:] = NO_TOKEN
            batch.start[SAMPLED][:] = start.context[-1]
            batch.start[POSITION][:] = start.position - 1
            if self._room:
                batch.start[HISTORY][: len(start.context)] = start.context
        return batch

    async def _rounds(
        self,
        running: Awaitable[bytes],
        batch: RoundBatch,
        outputs: Sequence[DeviceTensor],
        times: tuple[float, float],
    ) -> list[Round]:
        data = await running
        self._target.body.times.record(*times)
        return [self._round(data, number * batch.record, outputs) for number in range(batch.rounds)]

    def _round(self, data: bytes, at: int, outputs: Sequence[DeviceTensor]) -> Round:
        tokens = np.frombuffer(data, np.int32, self._count, at)
        at += tokens.nbytes
        found = []
        for tensor in outputs:
            found.append(tensor.decode(data, at))
            at += tensor.nbytes
        sampled = tokens_of_rows(found, self._target.kind)
        accepted = accepted_of(tokens, np.array([one.token for one in sampled], np.int32))
        return Round(sampled[: accepted + 1], accepted)
