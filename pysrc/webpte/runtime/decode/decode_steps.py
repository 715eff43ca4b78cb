"""Decode steps that run ahead of the host: each takes the token that the one before has sampled.

The first submission prepares a step like any other run: plans are found, inputs checked and packed.
The plans also say for which positions they serve, and where in the upload the position stands, as
a tensor or in SymInts. For those positions a submission is a replay: copy the packed step, write
the positions, run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from webpte.errors import IndexRangeError, ResizeError
from webpte.gpu.device import PlanRun
from webpte.gpu.tasks import detach
from webpte.graph.graph import Tensor
from webpte.plan.position_range import PositionRange, position_range
from webpte.runtime.base.call_context import CallLog, count_submission, executing
from webpte.runtime.base.gpu_tensor import DeviceTensor
from webpte.runtime.decode.sampled_delegate import SampledDelegate
from webpte.runtime.decode.sampling import SampledToken, SamplerSettings
from webpte.runtime.decode.step_batch import StepBatch
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.device_plan import DevicePlan

WORD = np.dtype(np.int32)


@dataclass(frozen=True)
class PendingSteps:
    """Steps that were submitted; `sampled` are their tokens, once they have run."""

    count: int
    sampled: asyncio.Future[list[SampledToken]]


@dataclass(frozen=True, eq=False)
class PackedStep:
    """The upload of one step, and the positions from `low` to `high` that its plans serve.

    row      the bytes, body first, then sampler
    places   the words of the row that follow the position
    offsets  by place, the distance from the position
    batches  plans of several such steps, by their number
    """

    plans: tuple[DevicePlan, DevicePlan]
    low: int
    high: int
    row: np.ndarray
    places: np.ndarray
    offsets: np.ndarray
    batches: dict[int, StepBatch] = field(default_factory=dict)


class DecodeSteps:
    """The decode steps of one answer, with these settings of its sampler.

    A call is counted in `log` as one of the method. Steps write to caches at their positions, so
    those that turn out not to be wanted can be written again.
    """

    def __init__(
        self, sampled: SampledDelegate, settings: SamplerSettings, method: str, log: CallLog
    ) -> None:
        self._sampled = sampled
        self._body = sampled.body
        self._settings = settings
        self._method = method
        self._log = log
        self._packed: PackedStep | None = None

    async def submit(self, position: int, steps: int) -> PendingSteps | str:
        """Submit up to so many steps from a position on; return the reason if none can be.

        The first step takes the token of the last call that kept it, or of the last step. As many
        steps are submitted as run by the same commands, rounded down to a power of two.
        """
        body = self._body
        with self._log.calling(self._method, body.lifetime), executing(self._method):
            async with body.turn():
                started = perf_counter()
                packed = self._packed
                if packed is None or not self._serves(packed, position):
                    found = await self._pack(position)
                    if isinstance(found, str):
                        return found
                    packed = self._packed = found
                count = 1 << (min(steps, packed.high - position + 1).bit_length() - 1)
                batch = packed.batches.get(count) or await self._plan_batch(packed, count)
                batch.rows[:] = packed.row
                positions = np.arange(position, position + count, dtype=WORD)[:, np.newaxis]
                batch.rows.view(WORD)[:, packed.places] = positions + packed.offsets
                body.lifetime.check()
                running = body.device.run(PlanRun(batch.handle, batch.payload))
                count_submission()
                submitted = perf_counter()
            # Held until the steps have run, whether anybody awaits them or not.
            lease = ExitStack()
            lease.enter_context(body.lifetime.lease())
        return PendingSteps(count, detach(self._tokens(running, lease, count, started, submitted)))

    async def _tokens(
        self, running: Awaitable[bytes], lease: ExitStack, count: int, *times: float
    ) -> list[SampledToken]:
        """Wait for steps that were submitted between these `times`; return their tokens."""
        with lease:
            words = np.frombuffer(await running, WORD).reshape(count, -1)
            self._body.queue.record_timing(*times)
            return [SampledToken(int(row[0]), row[1:] if row.size > 1 else None) for row in words]

    # The first step, and those at which other plans are needed

    def _serves(self, packed: PackedStep, position: int) -> bool:
        """Tell whether the plans of a packed step are still the current ones, and serve here."""
        sampler = self._sampled.sampler
        return (
            packed.low <= position <= packed.high
            and packed.plans[0] is self._body.plans.current
            and sampler is not None
            and packed.plans[1] is sampler.plans.current
        )

    async def _pack(self, position: int) -> PackedStep | str:
        """Prepare a step; return the reason if it cannot run before its token is on the host."""
        sampled, body = self._sampled, self._body
        sampler = await sampled.built_sampler()
        tokens, place = (body.graph.tensor(i) for i in body.graph.inputs)
        token = DeviceTensor(
            await sampled.token_buffer(), tokens.dtype, tokens.dtype.storage, (1, 1)
        )
        given = [token, np.array([position], place.dtype.numpy)]
        extra = sampled.kind.inputs(self._settings, position + 1)
        try:
            runs = await sampled.prepare(sampler, given, [*extra, *sampled.history(sampler)])
        except (ResizeError, IndexRangeError) as error:
            return str(error)  # not raised: nobody has requested this step yet
        plans = runs[0].plan, runs[1].plan
        if reason := sampled.why_not_ahead(sampler, plans[0]):
            return reason
        number = sampler.graph.inputs[1] if extra else None
        return _packed(
            plans,
            _followed(body, plans[0], place.id, position),
            _followed(sampler, plans[1], number, position),
        )

    async def _plan_batch(self, packed: PackedStep, count: int) -> StepBatch:
        tokens = self._body.memory.buffer_of(self._body.graph.inputs[0])
        batch = await self._sampled.batches.steps(*packed.plans, tokens, count)
        packed.batches[count] = batch
        return batch


def _followed(
    delegate: GpuDelegate, plan: DevicePlan, value_id: int | None, position: int
) -> tuple[PositionRange, dict[int, int]]:
    """Return the positions that a plan serves, and the places in its upload that follow them.

    The plan is prepared for a position, which an input (`value_id`, if there is one) follows: a
    tensor or a SymInt. Places are in bytes, each with its distance from the position.
    """
    here = PositionRange(position, position, {}), dict[int, int]()
    graph, segment = delegate.graph, plan.segments[-1]
    payload, places, moving = segment.payload, dict[int, int](), set[int]()
    value = None if value_id is None else graph.value(value_id)
    if isinstance(value, Tensor):
        if any(source.input != value.id for source in delegate.symint_sources):
            return here
        moving = {source.symint for source in delegate.symint_sources}
        if value.id in payload.offsets:
            if value.dtype.storage.numpy != WORD:
                return here
            places[payload.offsets[value.id]] = 0
    elif value_id is not None:
        moving = {value_id}
    found = position_range(delegate.planner, delegate.live, position, moving)
    if found is None:
        return here
    for index, symint in enumerate(delegate.symints):
        if symint in found.offsets:
            places[payload.symint_place(index)] = found.offsets[symint]
    for fault in segment.faults:
        for indexed, size in fault.indices:
            if indexed == value_id:
                found = found.cut(-size, size - 1)
    return found, places


def _packed(
    plans: tuple[DevicePlan, DevicePlan],
    body: tuple[PositionRange, dict[int, int]],
    sampler: tuple[PositionRange, dict[int, int]],
) -> PackedStep:
    """Join what was packed for the body and for the sampler."""
    payloads = [plan.segments[-1].payload.data for plan in plans]
    served = body[0].cut(sampler[0].low, sampler[0].high)
    places = body[1] | {payloads[0].size + at: offset for at, offset in sampler[1].items()}
    return PackedStep(
        plans,
        served.low,
        served.high,
        np.concatenate(payloads),
        np.array([at // WORD.itemsize for at in places], np.intp),
        np.array(list(places.values()), WORD),
    )
