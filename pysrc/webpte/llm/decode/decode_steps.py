"""Decode steps that run ahead of the host: each takes the token that the step before has sampled.

The first submission prepares a step like any other run: plans are found, inputs checked and packed.
The plans also name the positions that they serve, and the words of the upload that hold the
position, as a tensor or in SymInts. For those positions a submission is a replay: copy the packed
step, write the positions, run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from webpte.engine.call.call import CallLog, count_submission, executing
from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.gpu.device import PlanRun
from webpte.engine.graph.graph import Tensor
from webpte.engine.plan.position_range import PositionRange, position_range
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.device_plan import DevicePlan
from webpte.errors import IndexRangeError, ResizeError
from webpte.llm.decode.sampled_delegate import SampledDelegate
from webpte.llm.decode.sampling import SampledToken, SamplerSettings
from webpte.llm.decode.step_batch import StepBatch

WORD = np.dtype(np.int32)


@dataclass(frozen=True)
class PendingSteps:
    """Steps that were submitted; `sampled` are their tokens, once the steps have run."""

    count: int
    sampled: asyncio.Future[list[SampledToken]]


@dataclass(frozen=True, eq=False)
class PackedStep:
    """The upload of a step, and the positions from `low` to `high` that its plans serve.

    row      the bytes, body first, then sampler
    places   the words of the row that follow the position
    offsets  by place, the distance from the position
    mask     the bytes of the row that are the mask of allowed tokens, if there is a mask
    batches  plans of several such steps, by their number
    """

    plans: tuple[DevicePlan, DevicePlan]
    low: int
    high: int
    row: np.ndarray
    places: np.ndarray
    offsets: np.ndarray
    mask: slice
    batches: dict[int, StepBatch] = field(default_factory=dict)

    def fill(self, rows: np.ndarray, position: int) -> None:
        """Write the uploads of steps from a position on, a step to a row."""
        rows[:] = self.row
        positions = np.arange(position, position + len(rows), dtype=WORD)[:, np.newaxis]
        rows.view(WORD)[:, self.places] = positions + self.offsets


class StepPacker:
    """Packer of the steps of an answer, each of `count` tokens, once for many positions."""

    def __init__(self, sampled: SampledDelegate, settings: SamplerSettings, count: int = 1) -> None:
        self._sampled = sampled
        self._settings = settings
        self._count = count
        self._packed: PackedStep | None = None

    async def pack(
        self, position: int, tokens: int, allowed: np.ndarray | None = None
    ) -> PackedStep | str:
        """Return a step that serves at a position; the caller holds the body's turn.

        `tokens` is the buffer with the step's tokens, `allowed` the mask of tokens to sample from,
        or None. Returns the reason if the step cannot run before its tokens are on the host.
        """
        packed, sampled = self._packed, self._sampled
        if packed is None or not self._serves(packed, position):
            found = await _pack(sampled, self._settings, position, tokens, allowed, self._count)
            if isinstance(found, str):
                return found
            packed = self._packed = found
        return packed

    def _serves(self, packed: PackedStep, position: int) -> bool:
        """Return whether the plans of a packed step are current, and serve at this position."""
        body, sampler = self._sampled.body, self._sampled.sampler
        return (
            packed.low <= position <= packed.high
            and packed.plans[0] is body.plans.current
            and sampler is not None
            and packed.plans[1] is sampler.plans.current
            and body.sampled_writes == body.kept_writes
        )


class _Submitted(NamedTuple):
    running: Awaitable[bytes]
    steps: int
    times: tuple[float, float]  # the times at which the submission began and ended


class DecodeSteps:
    """The decode steps of an answer, with these settings of its sampler.

    Each call is counted in `log` as a call of the method. Steps write to caches at their positions,
    so the positions of discarded steps can be written again. If the sampler takes a mask, each step
    needs a mask.
    """

    def __init__(
        self, sampled: SampledDelegate, settings: SamplerSettings, method: str, log: CallLog
    ) -> None:
        self._sampled = sampled
        self._body = sampled.body
        self._packer = StepPacker(sampled, settings)
        self._method = method
        self._log = log

    async def submit(self, position: int, steps: int) -> PendingSteps | str:
        """Submit up to `steps` steps from a position on; return the reason if no step can run.

        The first step takes the token of the last call that kept its token, or of the last step.
        The number of steps is rounded down to a power of two, of steps that run by the same
        commands.
        """
        lifetime = self._body.lifetime
        with self._log.calling(self._method, lifetime), executing(self._method):
            found = await self._submit(position, steps)
            if isinstance(found, str):
                return found
            return PendingSteps(found.steps, lifetime.lease_for(self._tokens(found)))

    async def sample(self, position: int, allowed: np.ndarray | None = None) -> SampledToken | str:
        """Run a step, as the first of `submit`; return its token, or the reason why it cannot run.

        `allowed` is the mask of tokens to sample from. After an error or a cancelled call the token
        on the GPU may be a different token: no step can follow.
        """
        with self._log.calling(self._method, self._body.lifetime), executing(self._method):
            found = await self._submit(position, 1, allowed)
            return found if isinstance(found, str) else (await self._tokens(found))[0]

    async def _submit(
        self, position: int, steps: int, allowed: np.ndarray | None = None
    ) -> _Submitted | str:
        body = self._body
        async with body.turn():
            started = perf_counter()
            token = self._sampled.token or await self._sampled.token_buffer()
            packed = await self._packer.pack(position, token, allowed)
            if isinstance(packed, str):
                return packed
            count = 1 << (min(steps, packed.high - position + 1).bit_length() - 1)
            batch = packed.batches.get(count) or await self._plan_batch(packed, count)
            packed.fill(batch.rows, position)
            if allowed is not None:
                batch.rows[:, packed.mask] = allowed.view(np.uint8)
            body.lifetime.check()
            running = body.device.run(PlanRun(batch.handle, batch.payload))
            count_submission()
            return _Submitted(running, count, (started, perf_counter()))

    async def _tokens(self, submitted: _Submitted) -> list[SampledToken]:
        words = np.frombuffer(await submitted.running, WORD).reshape(submitted.steps, -1)
        self._body.times.record(*submitted.times)
        return [SampledToken(int(row[0]), row[1:] if row.size > 1 else None) for row in words]

    async def _plan_batch(self, packed: PackedStep, count: int) -> StepBatch:
        tokens = self._body.memory.buffer_of(self._body.graph.inputs[0])
        batch = await self._sampled.batches.steps(*packed.plans, tokens, count)
        packed.batches[count] = batch
        return batch


async def _pack(
    sampled: SampledDelegate,
    settings: SamplerSettings,
    position: int,
    buffer: int,
    allowed: np.ndarray | None,
    count: int,
) -> PackedStep | str:
    """Prepare a step of `count` tokens in a buffer on the GPU; see `StepPacker.pack`."""
    body, sampler = sampled.body, await sampled.built_sampler()
    if len(body.graph.inputs) != 2 + len(body.kept_inputs):
        return "an input may have a row for each token, which only the host has"
    tokens, place = (body.graph.tensor(i) for i in body.graph.inputs[:2])
    if place.dtype.is_float:
        return "the position comes after other inputs"
    if count > 1 and place.dims != (1,):
        return "it takes the position of each token, and rounds have a single position"
    dtype = tokens.dtype
    given = [DeviceTensor(buffer, dtype, dtype.storage, (1, count))]
    extra = [*sampled.kind.inputs(settings, position + 1), *([] if allowed is None else [allowed])]
    try:
        first, second = await sampled.prepare(
            sampler,
            [*given, np.array([position], place.dtype.numpy), *body.kept_tensors()],
            [*extra, *sampled.history(sampler)],
        )
    except (ResizeError, IndexRangeError) as error:
        return str(error)  # not raised: the caller has not requested this step yet
    if reason := sampled.why_not_ahead(sampler, first.plan):
        return reason
    served, places = _followed(body, first.plan, place.id, position)
    number = sampler.graph.inputs[1] if extra else None
    served_too, more = _followed(sampler, second.plan, number, position)
    served = served.cut(served_too.low, served_too.high)
    payloads = [run.plan.segments[-1].payload for run in (first, second)]
    split, mask = payloads[0].data.size, slice(0, 0)
    places |= {split + at: offset for at, offset in more.items()}
    if allowed is not None:
        at = split + payloads[1].offsets[sampler.graph.inputs[len(extra)]]
        mask = slice(at, at + allowed.nbytes)
    return PackedStep(
        (first.plan, second.plan),
        served.low,
        served.high,
        np.concatenate([payload.data for payload in payloads]),
        np.array([at // WORD.itemsize for at in places], np.intp),
        np.array(list(places.values()), WORD),
        mask,
    )


def _followed(
    delegate: GpuDelegate, plan: DevicePlan, value_id: int | None, position: int
) -> tuple[PositionRange, dict[int, int]]:
    """Return the positions that a plan serves, and the places in its upload that follow them.

    The plan is prepared for a position, which an input follows (`value_id`, or None): a tensor or a
    SymInt. Places are in bytes, each with its distance from the position.
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
