"""A run of a delegate in pieces: the outputs of every kernel are read before they are overwritten.

The kernels, their params and their buffers are those of any other call. Only the work is cut: where
an op is about to write to memory that holds what an earlier one of the piece gave, what was given
so far is read back, and a new piece begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.engine.call.call import count_submission
from webpte.engine.call.gpu_tensor import DeviceTensor, GpuTensor
from webpte.engine.dtypes import convert_exactly
from webpte.engine.gpu.device import PlanRun
from webpte.engine.graph.graph import Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.plan.planner import PlannedCall
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.device_plan import DevicePlan, Segment, index_flags_of
from webpte.engine.run.io import Input, OutputPlacement
from webpte.engine.run.memory import PlanMemory
from webpte.engine.run.request import RunRequest
from webpte.errors import IndexRangeError
from webpte.inspection.checker import CallChecker
from webpte.inspection.recorder import Arrays

PIECE_BYTES = 32 << 20  # that come back with one piece, if one op alone does not give more

Follow = Callable[[LiveState, Arrays], CallChecker]


@dataclass
class _Piece:
    """Steps in order: those with kernels, and those in between that need none."""

    uploads: list[Tensor] = field(default_factory=list)
    records: list[tuple[PlannedCall, Dispatch]] = field(default_factory=list)
    reads: dict[int, Tensor] = field(default_factory=dict)  # what comes back, by value
    buffers: set[int] = field(default_factory=set)
    nbytes: int = 0
    steps: list[PlannedCall] = field(default_factory=list)


class StepwiseRun:
    """One run in pieces; `follow` makes the checker that is called after each step."""

    def __init__(self, delegate: GpuDelegate, follow: Follow) -> None:
        self._delegate = delegate
        self._graph = delegate.graph
        self._memory = delegate.memory
        self._follow = follow

    async def run(self, inputs: Sequence[Input], *, alone: bool) -> list[Any]:
        """Run once; returns arrays and numbers.

        State is restored if the delegate is `alone`; otherwise the caller restores it.
        """
        delegate = self._delegate
        with delegate.lifetime.lease():
            async with delegate.turn():
                given = [await self._on_host(value) for value in inputs]
                await delegate.prepare(RunRequest(given, OutputPlacement.BORROWED))
                if not alone:
                    return await self._run(given)
                async with delegate.guard.guarding(dry_run=True):
                    return await self._run(given)

    async def _on_host(self, value: Input) -> np.ndarray | int:
        if isinstance(value, GpuTensor):
            return await value.numpy()
        if isinstance(value, DeviceTensor):
            return await value.read(self._delegate.device)
        return value

    async def _run(self, given: Sequence[np.ndarray | int]) -> list[Any]:
        delegate, graph = self._delegate, self._graph
        live = LiveState(graph)
        live.restore(delegate.live.snapshot())
        follower = self._follow(live, await self._known(given))
        pieces = self._pieces()
        plan = await self._plan(pieces)
        try:
            delegate.queue.pack_inputs(plan, given)
            for number, (piece, segment) in enumerate(zip(pieces, plan.segments, strict=True)):
                computed = await self._submitted(segment)
                for step in piece.steps:
                    await follower.follow(step.op, step.call, _of_step(step, computed))
                    await asyncio.sleep(0)  # each can take long in NumPy; others get their turn
                if number + 1 < len(pieces):
                    payload = plan.segments[number + 1].payload
                    for tensor in pieces[number + 1].uploads:
                        array = await follower.value(tensor.id)
                        payload.fill(tensor.id, array, f"value {tensor.id}")
        finally:
            delegate.factory.destroy(plan)
        return [
            delegate.live.symint(i) if graph.is_symint(i) else np.array(await follower.value(i))
            for i in graph.outputs
        ]

    async def _known(self, given: Sequence[np.ndarray | int]) -> Arrays:
        """Return inputs and state, as they are before the first kernel."""
        arrays: Arrays = {}
        for index, (value_id, value) in enumerate(zip(self._graph.inputs, given, strict=True)):
            if isinstance(value, np.ndarray):
                dtype = self._graph.tensor(value_id).dtype.numpy
                arrays[value_id] = convert_exactly(value, dtype, f"input {index}")
        for value_id in sorted(Dataflow.of(self._graph).state):
            if self._memory.holds(value_id):
                tensor = self._graph.tensor(value_id)
                buffer, stored = self._memory.buffer_of(value_id), tensor.dtype.storage
                there = DeviceTensor(buffer, tensor.dtype, stored, tensor.dims)
                arrays[value_id] = await there.read(self._delegate.device)
        return arrays

    def _pieces(self) -> list[_Piece]:
        inputs = [self._graph.value(i) for i in self._graph.inputs]
        held = [t for t in inputs if isinstance(t, Tensor) and self._memory.holds(t.id)]
        pieces = [_Piece(held)]
        for step in self._delegate.planner.calls:
            records = [r for r in step.records if isinstance(r, Dispatch)]
            if records and step.host is None:
                given = self._given_by(step, records)
                buffers = {self._memory.buffer_of(i) for i in given}
                full = pieces[-1].nbytes > PIECE_BYTES
                if full or buffers & pieces[-1].buffers:
                    pieces.append(_Piece())
                pieces[-1].records += [(step, record) for record in records]
                pieces[-1].reads |= given
                pieces[-1].buffers |= buffers
                pieces[-1].nbytes += sum(tensor.storage_bytes for tensor in given.values())
            pieces[-1].steps.append(step)
            if step.host is not None:
                written = [self._graph.tensor(i) for i in self._delegate.planner.writes(step)]
                pieces.append(_Piece([t for t in written if self._memory.holds(t.id)]))
        return pieces

    def _given_by(self, step: PlannedCall, records: Sequence[Dispatch]) -> dict[int, Tensor]:
        """Return the tensors that the kernels of a step write: outputs that one of them binds."""
        bound = {b for record in records for b in record.bindings if isinstance(b, int)}
        writes = [i for i in self._delegate.planner.writes(step) if i in bound]
        return {i: self._graph.tensor(i) for i in writes if self._memory.holds(i)}

    async def _plan(self, pieces: Sequence[_Piece]) -> DevicePlan:
        """Build a plan with one segment for each piece."""
        factory, planner = self._delegate.factory, self._delegate.planner
        memory, segments = PlanMemory(self._memory), list[Segment]()
        key = factory.key(())
        faults = tuple(index_flags_of(key[1]))
        clears: tuple[int, ...] = ()
        symints = len(self._delegate.symints)
        try:
            if faults:
                clears = ((await self._memory.faults()).buffer,)
            for piece in pieces:
                checked = faults if piece is pieces[-1] else ()
                reads = list(piece.reads.values())
                segments.append(
                    await factory.segment(
                        memory, piece.uploads, symints, piece.records, reads, None, clears, checked
                    )
                )
                symints, clears = 0, ()
        except BaseException:
            factory.destroy(DevicePlan(tuple(segments), (), key, planner.state(), memory))
            raise
        return DevicePlan(tuple(segments), (), key, planner.state(), memory)

    async def _submitted(self, segment: Segment) -> Arrays:
        self._delegate.lifetime.check()
        running = self._delegate.device.run(PlanRun(segment.handle, segment.payload.data))
        count_submission()
        data = await running
        if fault := segment.raised_flag(data):
            raise IndexRangeError(str(fault))
        return {output.value_id: output.unpack(data) for output in segment.outputs}


def _of_step(step: PlannedCall, computed: Mapping[int, np.ndarray]) -> Mapping[int, np.ndarray]:
    """Return what was read back for a step; nothing for one that no kernel runs."""
    return computed if step.host is None and not step.aliased else {}
