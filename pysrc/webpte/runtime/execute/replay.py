"""One execution of a delegate: its bytes go up, its plan is replayed, its outputs come back.

In three steps: `prepare` finds or makes all that is needed, and shows whatever is wrong with a
call; `submit` puts the work into the queue; `results` waits. During the first two, the caller keeps
other calls of the delegate away; a call may wait for its results while others are submitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from webpte.errors import IndexRangeError
from webpte.gpu.device import Device, GpuCopy, PlanRun
from webpte.graph.graph import Graph
from webpte.graph.live_state import LiveState
from webpte.plan.planner import Planner
from webpte.plan.reference import run_reference
from webpte.runtime.base.gpu_tensor import GpuTensor
from webpte.runtime.base.lifetime import Lifetime
from webpte.runtime.base.submissions import count_submission
from webpte.runtime.execute.device_plan import DevicePlan, Payload, Segment
from webpte.runtime.execute.io_binding import (
    Input,
    OnGpu,
    OutputPlacement,
    PendingOutputs,
    input_copies,
)
from webpte.runtime.execute.memory import FAULT_BYTES, DelegateMemory
from webpte.runtime.execute.plan_selection import PlanSelector
from webpte.runtime.execute.timings import Timings, untimed


@dataclass(frozen=True)
class Prepared:
    """A call about which nothing is left to ask. `drop` its returns if it goes no further."""

    plan: DevicePlan
    inputs: Sequence[Input]
    returns: PendingOutputs
    timings: Timings | None

    @property
    def is_split(self) -> bool:
        """Whether ops run on the host between its kernels."""
        return len(self.plan.segments) > 1


@dataclass(frozen=True)
class Submitted:
    """An execution whose work is all in the queue."""

    segment: Segment
    returns: PendingOutputs
    running: Awaitable[bytes]
    symints: dict[int, int]  # the outputs that are no tensors, by value id
    faults: Awaitable[bytes] | None  # the word for them, if it does not come with the results


class SubmissionQueue:
    """Runs the plans of one delegate."""

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        planner: Planner,
        preparer: PlanSelector,
        memory: DelegateMemory,
        device: Device,
        symints: Sequence[int],
        lifetime: Lifetime,
    ) -> None:
        self._graph = graph
        self._live = live
        self._planner = planner
        self._preparer = preparer
        self._memory = memory
        self._device = device
        self._symints = symints
        self._lifetime = lifetime
        self.executions = 0
        self.last_ms: dict[str, float] = {}
        self.ended = 0.0  # when the last execution did, by `perf_counter`
        self.host_ms: dict[str, float] = {}  # op name to milliseconds spent on the host, in all

    async def prepare(
        self,
        inputs: Sequence[Input],
        fates: Sequence[OutputPlacement],
        timings: Timings | None = None,
    ) -> Prepared:
        """Everything that can be wrong with a call shows here, before any of it is submitted."""
        started = perf_counter()
        plan = await self._preparer.prepare(inputs)
        self._lifetime.check()
        planned = perf_counter()
        self.fill(plan, inputs)
        if timings is not None:
            times = started, planned, perf_counter()
            nbytes = int(plan.segments[0].payload.data.size)
            timings.prepared(self._graph, self._live.snapshot(), times, nbytes)
        outputs = zip(self._graph.outputs, fates, strict=True)
        of_tensors = [fate for value_id, fate in outputs if not self._graph.is_symint(value_id)]
        returns = await PendingOutputs.prepare(self._device, plan.segments[-1].outputs, of_tensors)
        self.last_ms["prepare"] = (perf_counter() - started) * 1000
        return Prepared(plan, inputs, returns, timings)

    def fill(self, plan: DevicePlan, inputs: Sequence[Input]) -> None:
        """Put inputs and live SymInts where they go up from."""
        first = plan.segments[0].payload
        for index, (value_id, value) in enumerate(zip(self._graph.inputs, inputs, strict=True)):
            if value_id in first and not isinstance(value, OnGpu):
                first.fill(value_id, np.asarray(value), f"input {index}")
        first.fill_symints([self._live.symint(value_id) for value_id in self._symints])

    def again(self, inputs: Sequence[Input]) -> Submitted | None:
        """Prepare and submit a call in one go, if it is the one before with other arrays.

        If not, None: then nothing has happened. All of its outputs come back.
        """
        started = perf_counter()
        plan = self._preparer.again(inputs)
        if plan is None:
            return None
        self._lifetime.check()
        (segment,) = plan.segments
        for index, (value_id, value) in enumerate(zip(self._graph.inputs, inputs, strict=True)):
            if value_id in segment.payload:
                assert isinstance(value, np.ndarray)
                segment.payload.fill(value_id, value, f"input {index}")
        prepared = perf_counter()
        running = self._device.run(PlanRun(segment.handle, segment.payload.data))
        count_submission()
        self.executions += 1
        submitted = perf_counter()
        self.last_ms["prepare"] = (prepared - started) * 1000
        self.last_ms["submit"] = (submitted - prepared) * 1000
        returns = PendingOutputs(segment.outputs, [OutputPlacement.READ] * len(segment.outputs), ())
        return Submitted(segment, returns, running, {}, None)

    async def submit(self, call: Prepared) -> Submitted:
        """Everything is in the queue when this returns; only the results are still to come."""
        started = perf_counter()
        try:
            copies, validate = await self.lead(call)
            last = call.plan.segments[-1]
            running = self._run(
                call, last, copies, call.returns.copies(self._device), call.returns.read, validate
            )
            try:
                clocked = call.timings is not None and call.timings.clocked
                comes = call.returns.read or clocked
                word = None if comes else self._read_faults(call)
            except BaseException:
                await running  # nobody else would; its own error is the better one
                raise
        except BaseException:
            call.returns.drop()
            raise
        self.executions += 1
        self.last_ms["submit"] = (perf_counter() - started) * 1000
        return Submitted(last, call.returns, running, self._symint_outputs(), word)

    def _read_faults(self, call: Prepared) -> Awaitable[bytes] | None:
        """The word for faults alone, unless every index was seen on the host already."""
        if self._preparer.are_checked(call.plan, call.inputs):
            return None
        word = self._device.read(self._memory.fault_word.buffer, FAULT_BYTES)
        count_submission()
        return word

    async def lead(self, call: Prepared) -> tuple[list[GpuCopy], bool]:
        """Run all but the last segment, with the ops on the host after each.

        Returns what has to be copied for the last one, and whether others can reach that.
        """
        self._lifetime.check()
        copies = input_copies(call.inputs, self._graph, self._memory, self._device)
        validate = any(isinstance(value, GpuTensor) for value in call.inputs)
        for segment, following in pairwise(call.plan.segments):
            result = await self._run(call, segment, copies, validate=validate)
            self._run_host_step(segment, result, following.payload, call.timings)
            self._lifetime.check()
            copies, validate = [], False
        return copies, validate

    def _run(
        self,
        call: Prepared,
        segment: Segment,
        copies: Sequence[GpuCopy],
        copies_after: Sequence[GpuCopy] = (),
        read: bool = True,
        validate: bool = False,
    ) -> Awaitable[bytes]:
        payload = segment.payload.data
        run = PlanRun(segment.handle, payload, copies, copies_after, read, validate)
        if call.timings is None:
            result = self._device.run(run)
        else:
            started = perf_counter()
            if call.timings.clocked:
                timed = self._device.profile(run)
            else:
                timed = untimed(self._device.run(run))
            result = call.timings.noting(segment, timed, started)
        count_submission()
        return result

    def _symint_outputs(self) -> dict[int, int]:
        ids = [value_id for value_id in self._graph.outputs if self._graph.is_symint(value_id)]
        return {value_id: self._live.symint(value_id) for value_id in ids}

    async def results(self, submitted: Submitted) -> list[Any]:
        started = perf_counter()
        try:
            if submitted.faults is None:
                data = word = await submitted.running
            else:
                data, word = await asyncio.gather(submitted.running, submitted.faults)
            if fault := submitted.segment.fault_in(word):
                raise IndexRangeError(str(fault))
        except BaseException:
            submitted.returns.drop()
            raise
        self.ended = perf_counter()
        self.last_ms["wait"] = (self.ended - started) * 1000
        tensors, symints = iter(submitted.returns.results(data)), submitted.symints
        return [symints[i] if i in symints else next(tensors) for i in self._graph.outputs]

    def note(self, started: float, submitted: float) -> None:
        """An execution has ended that began and was submitted elsewhere, at these times."""
        self.executions += 1
        self.ended = perf_counter()
        self.last_ms |= {
            "submit": (submitted - started) * 1000,
            "wait": (self.ended - submitted) * 1000,
        }

    def _run_host_step(
        self, segment: Segment, result: bytes, following: Payload, timings: Timings | None
    ) -> None:
        """Run an op without a kernel in NumPy, and hand on what it gives."""
        assert segment.host is not None
        started = perf_counter()
        arrays = {output.value_id: output.unpack(result) for output in segment.outputs}
        step = segment.host
        run_reference(step.op, step.call, self._graph, self._live, arrays)
        for value_id in self._planner.writes(step):
            if value_id in following:
                following.fill(value_id, arrays[value_id], str(step.call))
        spent = (perf_counter() - started) * 1000
        name = step.call.kernel or step.op.name
        self.host_ms[name] = self.host_ms.get(name, 0.0) + spent
        if timings is not None:
            timings.host(name, started, step.call.index)
