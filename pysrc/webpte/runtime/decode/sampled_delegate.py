"""A delegate with a head: what the head chooses from the outputs comes back instead of them.

The head (an argmax, a sampler) reads the outputs where they are, in the same submission. Where it
is safe, the token that it chooses is also the delegate's input of the next step, and several steps
are submitted at once: nothing waits for the host between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from webpte.errors import IndexRangeError, ResizeError
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
    """Steps that are in the queue. `chosen` are the tokens of each, when they have run."""

    count: int
    chosen: asyncio.Future[list[SampledToken]]


@dataclass(frozen=True)
class _SubmittedStep:
    chain: StepBatch
    running: Awaitable[bytes]
    started: float
    submitted: float


class SampledDelegate:
    """`kind` says which graph the head is. Its first input is the delegate's only output.

    It is made by the first call, in that call's turn: calls run in the order in which they came.
    """

    def __init__(
        self, body: GpuDelegate, kind: SamplerKind, library: ShaderLibrary, lifetime: Lifetime
    ) -> None:
        self.body = body
        self.head: GpuDelegate | None = None
        self._kind = kind
        self._library = library
        self._lifetime = lifetime
        self._chains = StepBatches(body.device, body.memory)
        self._token: int | None = None  # the buffer of the token that was chosen last
        self._unsafe_state = unsafe_state(body.graph)

    async def _made_head(self) -> GpuDelegate:
        """Only for whoever has the body's lock; it is the head's, too."""
        if self.head is None:
            self.head = await self._make_head()
        return self.head

    async def _make_head(self) -> GpuDelegate:
        memory = self.body.memory
        (output,) = self.body.outputs
        graph = self._kind.graph(output)
        borrowed = {graph.inputs[0]: memory.buffer_of(output.id)}
        taken: list[ScratchKey] = []
        try:
            if self._kind.penalized:
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

    def _history(self, head: GpuDelegate) -> list[Input]:
        """The history as an input, where there is one: it is on the GPU after a `run`."""
        if not self._kind.penalized:
            return []
        tensor = head.graph.tensor(head.graph.inputs[-1])
        buffer = head.memory.buffer_of(tensor.id)
        return [DeviceTensor(buffer, tensor.dtype, tensor.dtype.storage, tensor.dims)]

    async def run(
        self, inputs: Sequence[Input], extra: Sequence[Input] = (), keep_token: bool = False
    ) -> list[np.ndarray]:
        """Both once; `extra` are the head's other inputs. Returns what the head gives."""
        body = self.body
        with body.lifetime.lease():
            async with body.turn():
                head = await self._made_head()
                if keep_token:
                    await self._token_buffer()
                first, second = await self._prepare(head, inputs, extra)
                chain = await self._chains.call(first.plan, second.plan, keep_token)
                if body.may_spoil_state(first):
                    async with body.guard.guarding():
                        return await self._results(await self._submit(first, chain))
                submitted = await self._submit(first, chain)
            return await self._results(submitted)

    async def _prepare(
        self, head: GpuDelegate, given: Sequence[Input], extra: Sequence[Input]
    ) -> tuple[PreparedRun, PreparedRun]:
        body = self.body
        first = await body.prepare(RunRequest(given, OutputPlacement.BORROWED))
        lent = [output.tensor for output in first.plan.segments[-1].outputs]
        second = await head.prepare(RunRequest([*lent, *extra]))
        return first, second

    async def _submit(self, first: PreparedRun, chain: StepBatch) -> _SubmittedStep:
        """In one submission: a head that fails must not leave what the body wrote to state."""
        started = perf_counter()
        copies, watched = await self.body.queue.run_host_segments(first)
        chain.fill()
        running = self.body.device.run(chain.handle, chain.payload, copies, watched=watched)
        count_submission()
        return _SubmittedStep(chain, running, started, perf_counter())

    async def _results(self, submitted: _SubmittedStep) -> list[np.ndarray]:
        data = await submitted.running
        submitted.chain.check(data)
        self.body.queue.record_timing(submitted.started, submitted.submitted)
        return submitted.chain.outputs(data)

    # Several steps

    async def _token_buffer(self) -> int:
        if self._token is None:
            self._token = (await self.body.memory.take_scratch(TOKEN)).buffer
        return self._token

    async def ahead(
        self,
        inputs: Sequence[Sequence[Input]],
        extra: Sequence[Sequence[Input]],
    ) -> PendingSteps | str:
        """Submit as many steps as there are inputs for, or say why that cannot be done.

        Each step takes the token that the step before it chose, first of all that of a `run` with
        `keep_token`, and then its own `inputs` and `extra`, which need no history: it is on the
        GPU. There may be fewer: as many as run by the same commands, rounded down to a power of
        two.
        """
        body = self.body
        with body.lifetime.lease():
            async with body.turn():
                head = await self._made_head()
                token = self._as_input(await self._token_buffer())
                started, history = perf_counter(), self._history(head)
                given = [[token, *others] for others in inputs]
                try:
                    first, second = await self._prepare(head, given[0], [*extra[0], *history])
                except (ResizeError, IndexRangeError) as error:
                    return str(error)  # as in `try_reuse`: nobody has asked for this step yet
                if reason := self._unsafe(head, first.plan):
                    return reason
                rows = self._rows(head, first, second, given[1:], extra[1:], history)
                count = 1 << (len(rows).bit_length() - 1)
                tokens = body.memory.buffer_of(body.graph.inputs[0])
                chain = await self._chains.steps(first.plan, second.plan, tokens, count)
                for step, row in enumerate(rows[:count]):
                    chain.rows[step] = row
                body.lifetime.check()
                running = body.device.run(chain.handle, chain.payload)
                count_submission()
                submitted = _SubmittedStep(chain, running, started, perf_counter())
            # Held until the steps have run, whether anybody waits for them or not.
            lease = ExitStack()
            lease.enter_context(body.lifetime.lease())
        return PendingSteps(count, detach(self._chosen(submitted, lease)))

    def _rows(
        self,
        head: GpuDelegate,
        first: PreparedRun,
        second: PreparedRun,
        inputs: Sequence[Sequence[Input]],
        extra: Sequence[Sequence[Input]],
        history: Sequence[Input],
    ) -> list[np.ndarray]:
        """What goes up for a step that is prepared, and for those after it while it can."""
        body, payloads = self.body, [c.plan.segments[-1].payload for c in (first, second)]
        lent = [output.tensor for output in first.plan.segments[-1].outputs]
        rows = [np.concatenate([payload.data for payload in payloads])]
        for given, added in zip(inputs, extra, strict=True):
            wanted = [*lent, *added, *history]
            # A head to which nothing is added has the same inputs in every step.
            if not body.plans.try_reuse(given) or (added and not head.plans.try_reuse(wanted)):
                break
            body.queue.pack_inputs(first.plan, given)
            if added:
                head.queue.pack_inputs(second.plan, wanted)
            rows.append(np.concatenate([payload.data for payload in payloads]))
        return rows

    def _as_input(self, buffer: int) -> DeviceTensor:
        dtype = self.body.graph.tensor(self.body.graph.inputs[0]).dtype
        return DeviceTensor(buffer, dtype, dtype.storage, (1, 1))

    async def _chosen(self, submitted: _SubmittedStep, lease: ExitStack) -> list[SampledToken]:
        with lease:
            data = await submitted.running
            self.body.queue.record_timing(submitted.started, submitted.submitted)
            told = np.frombuffer(data, np.int32).reshape(len(submitted.chain.rows), -1)
            return [SampledToken(int(row[0]), row[1:] if row.size > 1 else None) for row in told]

    def _unsafe(self, head: GpuDelegate, plan: DevicePlan) -> str | None:
        """Why steps cannot run before the host has seen the tokens that they go on from."""
        body = self.body
        tokens = body.graph.tensor(body.graph.inputs[0])
        if self._unsafe_state is not None:
            return self._unsafe_state
        if tokens.dtype.storage.itemsize != TOKEN_BYTES or head.outputs[0].dtype.name != "int32":
            return f"tokens of {tokens.dtype.name} are not stored as the chosen ones are"
        if len(plan.segments) > 1:
            return f"ops run on the host: {', '.join(body.host_ops)}"
        vocabulary = body.outputs[0].dims[-1]
        for fault in plan.segments[-1].faults:
            for value_id, size in fault.indices:
                if value_id == tokens.id and size < vocabulary:
                    return f"{fault.call}: {vocabulary} tokens can be chosen, but it has {size}"
                if value_id not in body.graph.inputs:
                    return f"{fault.call}: looks at indices that are computed"
        return None
