"""Runs the plans of a delegate: packs inputs, submits kernels, reads outputs back.

A run takes three steps: `prepare` does everything that can fail because of the request, `submit`
hands the work to the device, and `Submission.outputs` waits. The caller keeps other runs of the
delegate away during the first two steps; during the third, other runs may be submitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

from webpte.engine.call.call import Lifetime, RunTimes, count_submission
from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.gpu.device import Device, GpuCopy, PlanRun
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.plan.reference import run_reference
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.device_plan import DevicePlan, Segment
from webpte.engine.run.io import NONE_OWNED, OutputPlacement, OwnedOutputs, Payload, input_copies
from webpte.engine.run.memory import INDEX_FLAG_BYTES, DelegateMemory
from webpte.engine.run.request import RunRequest
from webpte.engine.run.slices import Pace, Workgroups
from webpte.engine.run.timings import Timings, untimed
from webpte.errors import IndexRangeError

_NOTHING_FIRST: tuple[Sequence[GpuCopy], bool] = ((), False)


@dataclass(slots=True)
class PreparedRun:
    """A run that is checked, packed and allocated, but not submitted.

    `placements` has a placement for each tensor among the outputs. A caller that does not submit
    the run calls `owned.destroy`.
    """

    plan: DevicePlan
    request: RunRequest
    placements: Sequence[OutputPlacement]
    owned: OwnedOutputs
    timings: Timings | None


@dataclass(slots=True)
class Submission:
    """A run whose work is all in the device's queue."""

    queue: SubmissionQueue
    run: PreparedRun
    running: Awaitable[bytes]
    symints: Sequence[int]  # the outputs that are SymInts, in order
    # the word for index faults, if it is not read with the outputs
    index_flag: Awaitable[bytes] | None
    workgroups: int = 0  # workgroups whose end is waited for

    async def outputs(self) -> list[Any]:
        """Wait for the outputs, and return an array, a GPU tensor or an int for each."""
        started, segment = perf_counter(), self.run.plan.segments[-1]
        try:
            if self.index_flag is None:
                data = word = await self.running
            else:
                data, word = await asyncio.gather(self.running, self.index_flag)
            if segment.faults and (fault := segment.raised_flag(word)):
                raise IndexRangeError(str(fault))
        except BaseException:
            self.run.owned.destroy()
            raise
        times = self.queue.times
        before = max(started, times.ended)
        times.record_end(started)
        self.queue.pace.measured(self.workgroups, (times.ended - before) * 1000)
        owned, tensors = iter(self.run.owned.tensors), list[Any]()
        for output, placement in zip(segment.outputs, self.run.placements, strict=True):
            if placement is OutputPlacement.HOST:
                tensors.append(output.unpack(data))
            elif placement is OutputPlacement.BORROWED:
                tensors.append(output.tensor)
            else:
                tensors.append(next(owned))
        return self.queue.in_order(tensors, self.symints) if self.symints else tensors


class SubmissionQueue:
    """Submits the runs of one delegate to its device, and records how long they take."""

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        memory: DelegateMemory,
        device: Device,
        lifetime: Lifetime,
    ) -> None:
        self._graph = graph
        self._live = live
        self._memory = memory
        self._device = device
        self._lifetime = lifetime
        self._symints = graph.used_symints()
        self._symint_outputs = [i for i in graph.outputs if graph.is_symint(i)]
        # State that a slice has changed would have to be restored from copies, in twice the memory.
        self._may_divide = not Dataflow.of(graph).state
        self.pace = Pace()
        self.times = RunTimes()

    async def prepare(self, plan: DevicePlan, request: RunRequest, started: float) -> PreparedRun:
        """Pack the inputs and allocate the outputs with placement OWNED.

        `started` is the time when the search for the plan began.
        """
        planned = perf_counter()
        self.pack_inputs(plan, request.inputs)
        timings = None if request.dry_run is None else request.dry_run.timings
        if timings is not None:
            times = started, planned, perf_counter()
            nbytes = int(plan.segments[0].payload.data.size)
            timings.prepared(self._graph, self._live.snapshot(), times, nbytes)
        placements, owned = self._placements(request), NONE_OWNED
        if OutputPlacement.OWNED in placements:
            outputs = plan.segments[-1].outputs
            owned = await OwnedOutputs.allocate(self._device, outputs, placements)
        self.times.last_ms["prepare"] = (perf_counter() - started) * 1000
        return PreparedRun(plan, request, placements, owned, timings)

    def _placements(self, request: RunRequest) -> list[OutputPlacement]:
        """List the placement of each tensor among the outputs."""
        if isinstance(request.outputs, OutputPlacement):
            return [request.outputs] * (len(self._graph.outputs) - len(self._symint_outputs))
        pairs = zip(self._graph.outputs, request.outputs, strict=True)
        return [place for value_id, place in pairs if value_id not in self._symint_outputs]

    def pack_inputs(self, plan: DevicePlan, inputs: Sequence[Any]) -> None:
        """Copy the arrays among the inputs, and live SymInts, into the plan's upload block."""
        payload = plan.segments[0].payload
        for index, (value_id, value) in enumerate(zip(self._graph.inputs, inputs, strict=True)):
            if value_id in payload.offsets:
                payload.fill(value_id, value, f"input {index}")
        if self._symints:
            payload.fill_symints([self._live.symint(value_id) for value_id in self._symints])

    async def submit(self, run: PreparedRun) -> Submission:
        """Hand all work of a run to the device; the outputs are read later."""
        started = perf_counter()
        read = OutputPlacement.HOST in run.placements
        try:
            copies, validate = _NOTHING_FIRST
            if run.plan.has_gpu_inputs or not run.plan.is_one_replay:
                copies, validate = await self.run_host_segments(run)
            self._lifetime.check()
            last, first, workgroups = run.plan.segments[-1], 0, 0
            if run.plan.is_one_replay:
                work = run.plan.workgroups
                if self._may_divide and self.pace.is_long(work.count):
                    first = await self._run_slices(run, work, copies, validate)
                    copies = () if first else copies
                workgroups = work.left(first) if read else 0
            copies_after = run.owned.copies(self._device) if run.owned.tensors else ()
            rest = (first, len(last.labels)) if first else None
            running = self._run(run, last, copies, copies_after, read, validate, rest)
            try:
                comes = read or (run.timings is not None and run.timings.clocked)
                index_flag = None if comes else self._read_index_flag(run)
            except BaseException:
                # so that the task is awaited; the error under way is the better error
                await running
                raise
        except BaseException:
            run.owned.destroy()
            raise
        self.times.record_submission(started)
        symints: Sequence[int] = ()
        if self._symint_outputs:
            symints = [self._live.symint(value_id) for value_id in self._symint_outputs]
        return Submission(self, run, running, symints, index_flag, workgroups)

    async def _run_slices(
        self, run: PreparedRun, work: Workgroups, copies: Sequence[GpuCopy], validate: bool
    ) -> int:
        """Run all slices of a long run but the last, in sequence.

        Returns the first dispatch of the last slice. Slices after a cancellation are not submitted.
        """
        if run.request.dry_run is not None:
            return 0
        first, segment = 0, run.plan.segments[-1]
        while self.pace.is_long(work.left(first)):
            end = self.pace.end_of_slice(work, first)
            if end == len(segment.labels):
                break
            started = perf_counter()
            await self._run(run, segment, copies, (), True, validate, (first, end))
            self.pace.measured(work.left(first) - work.left(end), (perf_counter() - started) * 1000)
            self._lifetime.check()
            first, copies, validate = end, (), False
        return first

    def _read_index_flag(self, run: PreparedRun) -> Awaitable[bytes] | None:
        """Read the word for index faults alone, unless the host has checked every index."""
        if not run.plan.has_unchecked_indices:
            return None
        word = self._device.read(self._memory.index_flag_word.buffer, INDEX_FLAG_BYTES)
        count_submission()
        return word

    async def run_host_segments(self, run: PreparedRun) -> tuple[Sequence[GpuCopy], bool]:
        """Run all segments but the last, each followed by an op on the host.

        Returns the copies that the last segment needs first, and whether to validate it: the memory
        of a caller's tensors can be gone.
        """
        self._lifetime.check()
        copies: Sequence[GpuCopy] = ()
        validate = False
        if run.plan.has_gpu_inputs:
            inputs = run.request.inputs
            copies = input_copies(inputs, self._graph, self._memory, self._device)
            validate = any(isinstance(value, GpuTensor) for value in inputs)
        for segment, following in pairwise(run.plan.segments):
            result = await self._run(run, segment, copies, validate=validate)
            self._run_host_op(segment, result, following.payload, run.timings)
            self._lifetime.check()
            copies, validate = (), False
        return copies, validate

    def _run(
        self,
        run: PreparedRun,
        segment: Segment,
        copies: Sequence[GpuCopy],
        copies_after: Sequence[GpuCopy] = (),
        read: bool = True,
        validate: bool = False,
        slice: tuple[int, int] | None = None,
    ) -> Awaitable[bytes]:
        """Submit a segment, or a slice of it, timed if the request says so."""
        plan_run = PlanRun(
            segment.handle, segment.payload.data, copies, copies_after, read, validate, slice
        )
        timings = run.timings
        if timings is None:
            result = self._device.run(plan_run)
        else:
            started = perf_counter()
            if timings.clocked:
                timed = self._device.profile(plan_run)
            else:
                timed = untimed(self._device.run(plan_run))
            result = timings.noting(segment, timed, started)
        count_submission()
        return result

    def in_order(self, tensors: Sequence[Any], symints: Sequence[int]) -> list[Any]:
        """Merge tensors and SymInts in the order of the graph's outputs."""
        each, numbers = iter(tensors), iter(symints)
        return [
            next(numbers) if i in self._symint_outputs else next(each) for i in self._graph.outputs
        ]

    def _run_host_op(
        self, segment: Segment, result: bytes, following: Payload, timings: Timings | None
    ) -> None:
        """Run an op without a kernel in NumPy, and pack the results for the next segment."""
        assert segment.host is not None
        started = perf_counter()
        arrays = {output.value_id: output.unpack(result) for output in segment.outputs}
        step = segment.host
        run_reference(step.op, step.call, self._graph, self._live, arrays)
        for value_id in Dataflow.of(self._graph).writes(step.call):
            if value_id in following:
                following.fill(value_id, arrays[value_id], str(step.call))
        spent = (perf_counter() - started) * 1000
        name = step.call.kernel or step.op.name
        self.times.host_ms[name] = self.times.host_ms.get(name, 0.0) + spent
        if timings is not None:
            timings.host(name, started, step.call.index)
