"""A delegate with a sampler: the sampled token comes back instead of the delegate's output.

The sampler (an argmax, or sampling) reads the logits on the GPU, in the same submission. Where it
is safe, the token is also the delegate's input of the next step, and several steps are submitted at
once: nothing waits for the host between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from webpte.errors import IndexRangeError, ResizeError
from webpte.gpu.device import PlanRun
from webpte.gpu.tasks import detach
from webpte.plan.memory_plan import aligned
from webpte.plan.shaders import ShaderLibrary
from webpte.runtime.base.call_context import count_submission
from webpte.runtime.base.gpu_tensor import DeviceTensor
from webpte.runtime.base.lifetime import Lifetime
from webpte.runtime.decode.rollback_safety import unsafe_state
from webpte.runtime.decode.sampler_graph import SamplerKind
from webpte.runtime.decode.sampling import SampledToken
from webpte.runtime.decode.step_batch import TOKEN, TOKEN_BYTES, StepBatch, StepBatches
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.device_plan import DevicePlan
from webpte.runtime.execute.memory import ScratchKey
from webpte.runtime.execute.request import Input, OutputPlacement, RunRequest
from webpte.runtime.execute.submission_queue import PreparedRun


@dataclass(frozen=True)
class PendingSteps:
    """Steps that were submitted; `sampled` are their tokens, once they have run."""

    count: int
    sampled: asyncio.Future[list[SampledToken]]


@dataclass(frozen=True)
class PreparedSteps:
    """The plans of a body and its sampler, and what each step that they serve uploads."""

    body: DevicePlan
    sampler: DevicePlan
    rows: list[np.ndarray]


@dataclass(frozen=True)
class _SubmittedStep:
    batch: StepBatch
    running: Awaitable[bytes]
    started: float
    submitted: float


class SampledDelegate:
    """A delegate, the body, and a sampler of this `kind`, which takes the body's only output.

    The sampler is built by the first call, under the body's lock, so that calls keep their order.
    """

    def __init__(
        self, body: GpuDelegate, kind: SamplerKind, library: ShaderLibrary, lifetime: Lifetime
    ) -> None:
        self.body = body
        self.sampler: GpuDelegate | None = None
        self.kind = kind
        self._library = library
        self._lifetime = lifetime
        self._batches = StepBatches(body.device, body.memory)
        self._token: int | None = None  # the buffer of the token that was sampled last
        self._unsafe_state = unsafe_state(body.graph)

    async def _built_sampler(self) -> GpuDelegate:
        """Return the sampler, built if need be. The caller holds the body's lock."""
        if self.sampler is None:
            self.sampler = await self._build_sampler()
        return self.sampler

    async def _build_sampler(self) -> GpuDelegate:
        memory = self.body.memory
        (output,) = self.body.outputs
        graph = self.kind.graph(output)
        borrowed = {graph.inputs[0]: memory.buffer_of(output.id)}
        taken: list[ScratchKey] = []
        try:
            if self.kind.penalized:
                history = graph.tensor(graph.inputs[-1])
                key = ("history", aligned(history.storage_bytes))
                borrowed[history.id] = (await memory.take_scratch(key)).buffer
                taken.append(key)
            return await GpuDelegate.create(
                graph,
                self.body.device,
                self._library,
                lifetime=self._lifetime,
                borrowed=borrowed,
                info=self.body.info,
            )
        except BaseException:
            for key in taken:
                memory.release_scratch(key)
            raise

    def _history(self, sampler: GpuDelegate) -> list[Input]:
        """Return the history as an input, if there is one: it is on the GPU after a `run`."""
        if not self.kind.penalized:
            return []
        tensor = sampler.graph.tensor(sampler.graph.inputs[-1])
        buffer = sampler.memory.buffer_of(tensor.id)
        return [DeviceTensor(buffer, tensor.dtype, tensor.dtype.storage, tensor.dims)]

    async def run(
        self, inputs: Sequence[Input], extra: Sequence[Input] = (), keep_token: bool = False
    ) -> list[np.ndarray]:
        """Run both once, and return the sampler's outputs; `extra` are its other inputs."""
        body = self.body
        with body.lifetime.lease():
            async with body.turn():
                sampler = await self._built_sampler()
                if keep_token:
                    await self._token_buffer()
                first, second = await self._prepare(sampler, inputs, extra)
                batch = await self._batches.call(first.plan, second.plan, keep_token)
                if body.may_spoil_state(first):
                    async with body.guard.guarding():
                        return await self._results(await self._submit(first, batch))
                submitted = await self._submit(first, batch)
            return await self._results(submitted)

    async def _prepare(
        self, sampler: GpuDelegate, given: Sequence[Input], extra: Sequence[Input]
    ) -> tuple[PreparedRun, PreparedRun]:
        body = self.body
        first = await body.prepare(RunRequest(given, OutputPlacement.BORROWED))
        lent = [output.tensor for output in first.plan.segments[-1].outputs]
        second = await sampler.prepare(RunRequest([*lent, *extra]))
        return first, second

    async def _submit(self, first: PreparedRun, batch: StepBatch) -> _SubmittedStep:
        """Submit both at once: a sampler that fails must not leave state that the body wrote."""
        started = perf_counter()
        copies, validate = await self.body.queue.run_host_segments(first)
        batch.fill()
        run = PlanRun(batch.handle, batch.payload, copies, validate=validate)
        running = self.body.device.run(run)
        count_submission()
        return _SubmittedStep(batch, running, started, perf_counter())

    async def _results(self, submitted: _SubmittedStep) -> list[np.ndarray]:
        data = await submitted.running
        submitted.batch.check(data)
        self.body.queue.record_timing(submitted.started, submitted.submitted)
        return submitted.batch.outputs(data)

    # Several steps

    async def _token_buffer(self) -> int:
        if self._token is None:
            self._token = (await self.body.memory.take_scratch(TOKEN)).buffer
        return self._token

    async def decode_ahead(
        self,
        inputs: Sequence[Sequence[Input]],
        extra: Sequence[Sequence[Input]],
    ) -> PendingSteps | str:
        """Submit up to as many steps as there are inputs for; return the reason if none can be.

        Each step takes the token that the step before it sampled (the first one that of a `run`
        with `keep_token`), and its own `inputs` and `extra`; the history is on the GPU. As many
        steps are submitted as run by the same commands, rounded down to a power of two.
        """
        body = self.body
        with body.lifetime.lease():
            async with body.turn():
                started, token = perf_counter(), self.as_tokens(await self._token_buffer(), 1)
                steps = await self.prepare_steps(token, inputs, extra)
                if isinstance(steps, str):
                    return steps
                rows = steps.rows
                count = 1 << (len(rows).bit_length() - 1)
                tokens = body.memory.buffer_of(body.graph.inputs[0])
                batch = await self._batches.steps(steps.body, steps.sampler, tokens, count)
                for step, row in enumerate(rows[:count]):
                    batch.rows[step] = row
                body.lifetime.check()
                running = body.device.run(PlanRun(batch.handle, batch.payload))
                count_submission()
                submitted = _SubmittedStep(batch, running, started, perf_counter())
            # Held until the steps have run, whether anybody awaits them or not.
            lease = ExitStack()
            lease.enter_context(body.lifetime.lease())
        return PendingSteps(count, detach(self._sampled(submitted, lease)))

    async def prepare_steps(
        self,
        tokens: DeviceTensor,
        inputs: Sequence[Sequence[Input]],
        extra: Sequence[Sequence[Input]],
    ) -> PreparedSteps | str:
        """Prepare steps with these other inputs, as many as one plan serves; or tell why none is.

        The caller holds the body's turn. `tokens` stand for those that are on the GPU by then.
        """
        sampler = await self._built_sampler()
        history = self._history(sampler)
        given = [[tokens, *others] for others in inputs]
        try:
            first, second = await self._prepare(sampler, given[0], [*extra[0], *history])
        except (ResizeError, IndexRangeError) as error:
            return str(error)  # not raised: nobody has requested this step yet
        if reason := self._unsafe(sampler, first.plan):
            return reason
        rows = self._rows(sampler, first, second, given[1:], extra[1:], history)
        return PreparedSteps(first.plan, second.plan, rows)

    def _rows(
        self,
        sampler: GpuDelegate,
        first: PreparedRun,
        second: PreparedRun,
        inputs: Sequence[Sequence[Input]],
        extra: Sequence[Sequence[Input]],
        history: Sequence[Input],
    ) -> list[np.ndarray]:
        """Return the uploads of a prepared step, and of those after it that its plan serves."""
        body, payloads = self.body, [c.plan.segments[-1].payload for c in (first, second)]
        lent = [output.tensor for output in first.plan.segments[-1].outputs]
        rows = [np.concatenate([payload.data for payload in payloads])]
        for given, added in zip(inputs, extra, strict=True):
            wanted = [*lent, *added, *history]
            # A sampler without other inputs has the same inputs in every step.
            if not body.plans.try_reuse(given) or (added and not sampler.plans.try_reuse(wanted)):
                break
            body.queue.pack_inputs(first.plan, given)
            if added:
                sampler.queue.pack_inputs(second.plan, wanted)
            rows.append(np.concatenate([payload.data for payload in payloads]))
        return rows

    def as_tokens(self, buffer: int, count: int) -> DeviceTensor:
        """Return a buffer as the body's first input, of so many tokens."""
        dtype = self.body.graph.tensor(self.body.graph.inputs[0]).dtype
        return DeviceTensor(buffer, dtype, dtype.storage, (1, count))

    async def _sampled(self, submitted: _SubmittedStep, lease: ExitStack) -> list[SampledToken]:
        with lease:
            data = await submitted.running
            self.body.queue.record_timing(submitted.started, submitted.submitted)
            words = np.frombuffer(data, np.int32).reshape(len(submitted.batch.rows), -1)
            return [SampledToken(int(row[0]), row[1:] if row.size > 1 else None) for row in words]

    def _unsafe(self, sampler: GpuDelegate, plan: DevicePlan) -> str | None:
        """Return the reason why steps cannot run before the host has seen their tokens, or None."""
        body = self.body
        tokens = body.graph.tensor(body.graph.inputs[0])
        if self._unsafe_state is not None:
            return self._unsafe_state
        if tokens.dtype.storage.itemsize != TOKEN_BYTES or sampler.outputs[0].dtype.name != "int32":
            return f"tokens of {tokens.dtype.name} are not stored as the sampled ones are"
        if len(plan.segments) > 1:
            return f"ops run on the host: {', '.join(body.host_ops)}"
        vocabulary = body.outputs[0].dims[-1]
        for fault in plan.segments[-1].faults:
            for value_id, size in fault.indices:
                if value_id == tokens.id and size < vocabulary:
                    return f"{fault.call}: {vocabulary} tokens can be sampled, but it has {size}"
                if value_id not in body.graph.inputs:
                    return f"{fault.call}: reads indices that are computed"
        return None
