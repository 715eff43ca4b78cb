"""Rounds of speculative decoding that two models run on one GPU, several in one submission.

The host learns afterwards how far each round came: the rounds that follow are under way by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from webpte.errors import GraphError, OutOfMemoryError, UnsupportedError
from webpte.gpu.device import PlanRun
from webpte.gpu.tasks import detach
from webpte.ops.sampling.next_round import accepted_of
from webpte.plan.shaders import ShaderLibrary
from webpte.runtime.base.call_context import count_submission
from webpte.runtime.base.gpu_tensor import DeviceTensor
from webpte.runtime.decode.combined_plan import CombinedPlans, Scratches
from webpte.runtime.decode.round_batch import (
    POSITION,
    SAMPLED,
    TABLE,
    TOKENS,
    RoundBatch,
    RoundParts,
    build_rounds,
    next_round_graph,
)
from webpte.runtime.decode.sampled_delegate import PreparedSteps, SampledDelegate
from webpte.runtime.decode.sampler_graph import tokens_of_rows
from webpte.runtime.decode.sampling import SampledToken
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.request import Input, OutputPlacement, RunRequest

# The inputs of a step at a position: those of the body after its tokens, and of its sampler.
StepInputs = Callable[[int], tuple[Sequence[Input], Sequence[Input]]]

NO_TOKEN = -1
MOST_ROUNDS = 4  # in one submission
IN_FLIGHT = 2  # submissions


@dataclass(frozen=True)
class Round:
    """A round that has run: the tokens that follow, and how many of the guesses were right."""

    sampled: list[SampledToken]
    accepted: int


@dataclass(frozen=True)
class PendingRounds:
    """Rounds that were submitted; `found` once they have run."""

    count: int
    found: asyncio.Future[list[Round]]


@dataclass(frozen=True)
class RoundStart:
    """The token that rounds begin with, and its position."""

    position: int
    token: int


class KnownRows:
    """Uploads of a model's steps by position, computed once for rounds that overlap."""

    def __init__(self) -> None:
        self._rows: dict[int, np.ndarray] = {}
        self._plans: tuple[int, ...] = ()  # their handles

    def missing(self, positions: range) -> Sequence[int]:
        """Return those positions that are not known; the last one if all are."""
        return [i for i in positions if i not in self._rows] or positions[-1:]

    def add(self, positions: Sequence[int], steps: PreparedSteps) -> None:
        """Add what was prepared; rows of other plans are forgotten."""
        plans = tuple(plan.segments[-1].handle for plan in (steps.body, steps.sampler))
        if plans != self._plans:
            self._rows, self._plans = {}, plans
        self._rows.update(zip(positions, steps.rows, strict=True))

    def take(self, positions: range) -> list[np.ndarray] | None:
        """Return the rows of these positions, and forget others; None if some are missing."""
        if any(i not in self._rows for i in positions):
            return None
        self._rows = {i: self._rows[i] for i in positions}
        return list(self._rows.values())


@dataclass(frozen=True)
class RoundInputs:
    """The inputs of one model's steps, in the rounds of one answer."""

    step: StepInputs
    known: KnownRows


class DraftedRounds:
    """Rounds of `count` tokens each: those of a draft, checked by a target.

    body    the target's delegate, whose caches `target` writes, too
    target  it, changed to sample after each of `count` tokens
    draft   the draft's delegate, with a sampler
    """

    def __init__(
        self,
        body: GpuDelegate,
        target: SampledDelegate,
        draft: SampledDelegate,
        count: int,
        library: ShaderLibrary,
    ) -> None:
        self.lead: GpuDelegate | None = None  # tells where rounds begin; built by the first call
        self._body, self._target, self._draft = body, target, draft
        self._count = count
        self._library = library
        self._batches = CombinedPlans[RoundBatch](body.device, body.memory)

    async def submit(
        self,
        places: range,
        rounds: int,
        start: RoundStart | None,
        inputs: tuple[RoundInputs, RoundInputs],
    ) -> PendingRounds | str:
        """Submit rounds, the first of which begins at one of these places; or tell why not.

        `start` says where it begins; None: where the round before it ends, which is under way.
        `inputs` are those of the target and of the draft.
        """
        body = self._body
        with ExitStack() as leases:
            for lifetime in {body.lifetime, self._draft.body.lifetime}:
                leases.enter_context(lifetime.lease())
            async with AsyncExitStack() as turns:
                # In one order for all: two models could be each other's drafts.
                for one in sorted((body, self._draft.body), key=id):
                    await turns.enter_async_context(one.turn())
                await turns.enter_async_context(self._target.body.turn())
                started = perf_counter()
                try:
                    parts = await self._prepare(places, rounds, inputs)
                    if isinstance(parts, str):
                        return parts
                    batch = await self._filled(parts, rounds, start)
                except (GraphError, UnsupportedError, OutOfMemoryError) as error:
                    return f"rounds of {self._count} tokens cannot be built: {error}"
                for lifetime in {body.lifetime, self._draft.body.lifetime}:
                    lifetime.check()
                running = body.device.run(PlanRun(batch.handle, batch.payload))
                count_submission()
                submitted = perf_counter()
            held = leases.pop_all()  # until the rounds have run, whether anybody awaits them or not
        outputs = parts.outputs
        found = self._rounds(running, batch, outputs, held, (started, submitted))
        return PendingRounds(rounds, detach(found))

    async def _prepare(
        self, places: range, rounds: int, inputs: tuple[RoundInputs, RoundInputs]
    ) -> RoundParts | str:
        """Prepare a step of each model at every position that the rounds may come to."""
        count = self._count
        last = places[-1] + rounds * count  # of the draft, exclusive
        target = await self._steps(
            self._target, count, inputs[0], range(places[0], last - count + 1)
        )
        if isinstance(target, str):
            return target
        draft = await self._steps(self._draft, 1, inputs[1], range(places[0], last))
        if isinstance(draft, str):
            return draft
        lead = await self._next_round(draft, target)
        tensors: list[Input] = [
            DeviceTensor(lead.memory.buffer_of(i), t.dtype, t.dtype.storage, t.dims)
            for i in lead.graph.inputs[: TABLE + 1]
            for t in [lead.graph.tensor(i)]
        ]
        request = RunRequest([*tensors, places[0]], OutputPlacement.BORROWED)
        run = await lead.prepare(request)
        tokens = [
            one.body.memory.buffer_of(one.body.graph.inputs[0])
            for one in (self._draft, self._target)
        ]
        return RoundParts(lead, run.plan, draft, target, *tokens)

    async def _steps(
        self, model: SampledDelegate, count: int, inputs: RoundInputs, positions: range
    ) -> PreparedSteps | str:
        """Prepare a step of `count` tokens at each of these positions."""
        tokens = model.as_tokens(model.body.memory.buffer_of(model.body.graph.inputs[0]), count)
        while True:  # twice if what is known is for other plans
            missing = inputs.known.missing(positions)
            others, extra = zip(*map(inputs.step, missing), strict=True)
            steps = await model.prepare_steps(tokens, others, extra)
            if isinstance(steps, str):
                return steps
            if len(steps.rows) < len(missing):
                return f"steps from position {missing[0]} on do not all run by the same commands"
            inputs.known.add(missing, steps)
            rows = inputs.known.take(positions)
            if rows is not None:
                return replace(steps, rows=rows)

    async def _next_round(self, draft: PreparedSteps, target: PreparedSteps) -> GpuDelegate:
        """Return the delegate that tells where rounds begin, built if need be."""
        words = (draft.rows[0].size + target.rows[0].size) // 4
        positions = IN_FLIGHT * MOST_ROUNDS * self._count
        if self.lead is None:
            self.lead = await GpuDelegate.create(
                next_round_graph(self._count, positions, words),
                self._body.device,
                self._library,
                lifetime=self._body.lifetime,
                info=self._body.info,
            )
        return self.lead

    async def _filled(self, parts: RoundParts, rounds: int, start: RoundStart | None) -> RoundBatch:
        """Return the plan of these rounds, with what it uploads."""

        async def build(scratch: Scratches) -> RoundBatch:
            return await build_rounds(
                self._body.device, parts, scratch, self._count, rounds, start is not None
            )

        batch = await self._batches.get(parts.plans, (rounds, start is not None), build)
        split = parts.draft.rows[0].size // 4
        batch.table[: len(parts.draft.rows), :split] = np.stack(parts.draft.rows).view(np.int32)
        batch.table[: len(parts.target.rows), split:] = np.stack(parts.target.rows).view(np.int32)
        (lead,) = parts.next_round.segments
        batch.first[:] = lead.payload.data
        if start is not None:
            # As after a round whose first guess was wrong: the next one begins after one token.
            batch.start[TOKENS][:] = NO_TOKEN
            batch.start[SAMPLED][:] = start.token
            batch.start[POSITION][:] = start.position - 1
        return batch

    async def _rounds(
        self,
        running: Awaitable[bytes],
        batch: RoundBatch,
        outputs: Sequence[DeviceTensor],
        leases: ExitStack,
        times: tuple[float, float],
    ) -> list[Round]:
        with leases:
            data = await running
            self._target.body.queue.record_timing(*times)
            return [
                self._round(data, number * batch.record, outputs) for number in range(batch.rounds)
            ]

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
