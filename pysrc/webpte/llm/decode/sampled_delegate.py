"""A delegate with a sampler: the sampled token comes back instead of the delegate's output.

The sampler (an argmax, or sampling) reads the logits on the GPU, in the same submission. Where it
is safe, steps follow that take the token of the step before on the GPU: see decode_steps.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from webpte.engine.call.call import Lifetime, count_submission
from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.gpu.device import PlanRun
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.device_plan import DevicePlan
from webpte.engine.run.io import Input, OutputPlacement
from webpte.engine.run.memory import ScratchKey
from webpte.engine.run.request import RunRequest
from webpte.engine.run.submission_queue import PreparedRun
from webpte.llm.decode.rollback_safety import unsafe_state
from webpte.llm.decode.sampler_graph import SamplerKind
from webpte.llm.decode.step_batch import TOKEN, TOKEN_BYTES, StepBatch, StepBatches


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
        self.batches = StepBatches(body.device, body.memory)
        self.token: int | None = None  # the buffer of the token that was sampled last
        self._unsafe_state = unsafe_state(body.graph)

    @property
    def delegates(self) -> list[GpuDelegate]:
        """The sampler, once it is built; the body is the method's."""
        return [] if self.sampler is None else [self.sampler]

    async def built_sampler(self) -> GpuDelegate:
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

    def history(self, sampler: GpuDelegate) -> list[Input]:
        """Return the history, on the GPU after a `run`, as a list of inputs; [] if unused."""
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
                sampler = await self.built_sampler()
                if keep_token:
                    await self.token_buffer()
                first, second = await self.prepare(sampler, inputs, extra)
                body.sampled_writes = body.kept_writes
                batch = await self.batches.call(first.plan, second.plan, keep_token)
                if body.may_spoil_state(first):
                    async with body.guard.guarding():
                        return await self._results(await self._submit(first, batch))
                submitted = await self._submit(first, batch)
            return await self._results(submitted)

    async def prepare(
        self, sampler: GpuDelegate, given: Sequence[Input], extra: Sequence[Input]
    ) -> tuple[PreparedRun, PreparedRun]:
        """Prepare a run of the body, and of the sampler on its output; only within the turn."""
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
        self.body.times.record(submitted.started, submitted.submitted)
        return submitted.batch.outputs(data)

    async def token_buffer(self) -> int:
        """Return the buffer that holds the token of the last run with `keep_token`."""
        if self.token is None:
            self.token = (await self.body.memory.take_scratch(TOKEN)).buffer
        return self.token

    @property
    def keeps_inputs(self) -> bool:
        """Whether the inputs shared by all steps are still the inputs of the last sampled token.

        A sampler of another kind may have sampled that token: the first token of an answer has a
        mask.
        """
        return self.body.sampled_writes == self.body.kept_writes

    def why_not_ahead(self, sampler: GpuDelegate, plan: DevicePlan) -> str | None:
        """Return the reason why steps cannot run before the host has seen their tokens, or None."""
        body = self.body
        tokens = body.graph.tensor(body.graph.inputs[0])
        if self._unsafe_state is not None:
            return self._unsafe_state
        if not self.keeps_inputs:
            return "the method ran with other inputs since"
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
