"""One delegate's graph on a GPU device: built once, then executed at whatever shapes come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from webpte.checks import (
    check_arity,
    check_defined,
    constant_transfers,
    read_symint,
    resolve_ops,
    symint_sources,
)
from webpte.errors import ClosedError, ExecutionError, IndexRangeError, UnsupportedOpError
from webpte.gpu.device import Device, GpuCopy, Progress, Transfer
from webpte.graph import Graph, Tensor
from webpte.live import LiveState
from webpte.ops.records import Faults
from webpte.passes import merge_duplicate_calls, separate_buffer_writes, store_halves
from webpte.plan import Planner, Step, check_bounds
from webpte.reference import run_reference
from webpte.runtime.constants import ConstantStore, conversion, shareable
from webpte.runtime.device_plan import (
    DevicePlan,
    PlanFactory,
    PlanKey,
    Segment,
    Signature,
)
from webpte.runtime.gpu_tensor import GpuTensor
from webpte.runtime.memory import FAULT_BYTES, DelegateMemory
from webpte.runtime.transit import (
    Fate,
    Input,
    OnGpu,
    Result,
    Returns,
    host_arrays,
    input_copies,
    readable,
)
from webpte.shaders import ShaderLibrary
from webpte.storage import plan_storage

# Plans kept per delegate: prefill lengths come and go, and each plan holds its bind groups.
MAX_PLANS = 32

_NO_INDICES = np.empty(0, np.int32)


@dataclass(frozen=True)
class _Submitted:
    """An execution whose work is all in the queue."""

    segment: Segment
    returns: Returns
    running: Awaitable[bytes]
    faults: Awaitable[bytes] | None  # the word for them, where it does not come with the results
    symints: dict[int, int]  # the outputs that are no tensors, by value id


class GpuDelegate:
    """Made by `create`; `execute` may be called again and again, also concurrently."""

    def __init__(
        self, graph: Graph, device: Device, library: ShaderLibrary, constants: ConstantStore
    ) -> None:
        check_arity(graph)
        if device.info.has_halves:
            graph = store_halves(graph)
        self._transfers = constant_transfers(graph)
        graph = merge_duplicate_calls(separate_buffer_writes(graph))
        check_defined(graph)
        ops = resolve_ops(graph)
        storage = plan_storage(graph, ops)
        self._graph = graph
        self._device = device
        self._live = LiveState(graph)
        self._planner = Planner(graph, self._live, ops, storage, device.info.target)
        self._symints = graph.used_symints()
        self._symint_sources = symint_sources(graph, ops)
        shared = shareable(graph, self._transfers, storage)
        self._memory = DelegateMemory(device, storage, self._symints, shared, constants)
        self._factory = PlanFactory(
            graph, self._live, self._planner, self._memory, device, library, self._symints
        )
        self._plans: dict[PlanKey, DevicePlan] = {}  # least recently made or switched to first
        self._latest: dict[Signature, DevicePlan] = {}
        self._current: DevicePlan | None = None
        self._lock = asyncio.Lock()
        self._closed = False
        self.transfers = 0
        self.executions = 0
        self.last_ms: dict[str, float] = {}
        self.ended = 0.0  # when the last execution did, by `perf_counter`
        self.host_ms: dict[str, float] = {}  # op name to milliseconds spent on the host, in all

    @classmethod
    async def create(
        cls,
        graph: Graph,
        device: Device,
        library: ShaderLibrary,
        progress: Progress | None = None,
        strict: bool = False,
        constants: ConstantStore | None = None,
    ) -> GpuDelegate:
        """Allocate, compile and move constants; gives everything back if any of it fails.

        Delegates with one store of `constants` share those that they have in common.
        """
        delegate = cls(graph, device, library, constants or ConstantStore())
        try:
            await delegate._build(progress, strict)
        except BaseException:
            delegate.close()
            raise
        return delegate

    async def _build(self, progress: Progress | None, strict: bool) -> None:
        self._planner.lower_all()
        if strict and (refused := self.host_ops):
            raise UnsupportedOpError("strict=True, and no kernel takes these", refused)
        await self._memory.allocate()
        # The GPU process compiles while this one reads the file. Both end before either's error
        # is raised: what is still under way cannot be given back.
        dispatches = self._planner.dispatches()
        compiling = asyncio.ensure_future(self._factory.compile(dispatches, progress))
        try:
            await self._transfer_constants(progress)
        finally:
            await asyncio.gather(compiling, return_exceptions=True)
        compiling.result()
        if not self._planner.unsettled:
            inputs = (self._graph.value(i) for i in self._graph.inputs)
            await self._switch(tuple((v.dims, False) for v in inputs if isinstance(v, Tensor)))

    async def _transfer_constants(self, progress: Progress | None) -> None:
        """Everything that no other delegate has moved already."""
        moved = [t for t in self._transfers if self._memory.is_fresh(t.target.id)]
        transfers = [
            Transfer(
                region=transfer.constant.region.head(transfer.target.file_bytes),
                buffer=self._memory.buffer_of(transfer.target.id),
                convert=conversion(transfer.target),
            )
            for transfer in moved
            if transfer.target.file_bytes
        ]
        await self._device.transfer(transfers, progress)
        self.transfers = len(moved)

    async def _switch(self, signature: Signature) -> DevicePlan:
        """The plan for the live shapes: one made before, or a new one."""
        key = self._factory.key(signature)
        plan = self._plans.get(key)
        if plan is None:
            plan = await self._factory.make(key)
            if self._closed:
                self._factory.destroy(plan)
                self._memory.free()  # the new plan may have allocated
            self._check_open()
        self._use(plan)
        return plan

    def _use(self, plan: DevicePlan) -> None:
        """Make a plan the current one, and the last to be forgotten."""
        self._plans.pop(plan.key, None)
        self._plans[plan.key] = self._latest[plan.key[0]] = self._current = plan

    def _forget_plans(self) -> None:
        """Drop those that were not used for longest; never the current one, which is last."""
        while len(self._plans) > MAX_PLANS:
            oldest = self._plans.pop(next(iter(self._plans)))
            if self._latest.get(oldest.key[0]) is oldest:
                del self._latest[oldest.key[0]]
            self._factory.destroy(oldest)

    # Execution

    @property
    def input_count(self) -> int:
        return len(self._graph.inputs)

    @property
    def outputs(self) -> list[Tensor]:
        return self._graph.tensor_outputs()

    async def execute(self, inputs: Sequence[Input]) -> list[Any]:
        """Run once: an array per tensor, an int per SymInt. After an error all is as before."""
        return await self.execute_mixed(inputs, [Fate.READ] * len(self._graph.outputs))

    async def execute_mixed(self, inputs: Sequence[Input], fates: Sequence[Fate]) -> list[Any]:
        """Run once; `fates` says what becomes of each tensor. SymInts are always on the host."""
        given = await self._readable(inputs)
        async with self._lock:
            submitted = await self._submit(given, fates)
        return await self._results(submitted)

    async def execute_unread(self, inputs: Sequence[Input]) -> None:
        """Run once for its effect on state alone."""
        await self.execute_mixed(inputs, [Fate.LEND] * len(self._graph.outputs))

    async def execute_into(self, inputs: Sequence[Input], head: GpuDelegate) -> list[np.ndarray]:
        """Run once, and then `head` on the outputs, before another call can overwrite them."""
        given = await self._readable(inputs)
        async with self._lock:
            body = await self._submit(given, [Fate.LEND] * len(self._graph.outputs))
            try:
                lent = await head._readable([output.tensor for output in body.segment.outputs])
                async with head._lock:
                    top = await head._submit(lent, [Fate.READ] * len(head._graph.outputs))
            except BaseException:
                await self._results(body)  # if that went wrong already, it is the better error
                raise
        try:
            await self._results(body)
        finally:
            results = await head._results(top)
        return [result for result in results if isinstance(result, np.ndarray)]

    async def _readable(self, inputs: Sequence[Input]) -> list[Input]:
        on_host = {source.input for source in self._symint_sources}
        return await readable(inputs, self._graph, on_host, self._device)

    async def _submit(self, inputs: Sequence[Input], fates: Sequence[Fate]) -> _Submitted:
        """Everything is in the queue when this returns; only the results are still to come."""
        started = perf_counter()
        plan = await self._prepare(inputs)
        first, last = plan.segments[0].payload, plan.segments[-1]
        for index, (value_id, value) in enumerate(zip(self._graph.inputs, inputs, strict=True)):
            if value_id in first and not isinstance(value, OnGpu):
                first.fill(value_id, np.asarray(value), f"input {index}")
        first.fill_symints([self._live.symint(value_id) for value_id in self._symints])
        outputs = zip(self._graph.outputs, fates, strict=True)
        of_tensors = [fate for value_id, fate in outputs if not self._graph.is_symint(value_id)]
        returns = await Returns.prepare(self._device, last.outputs, of_tensors)
        prepared = perf_counter()
        try:
            submitted = await self._run(plan, inputs, returns)
        except BaseException:
            returns.drop()
            raise
        self.executions += 1
        self.last_ms["prepare"] = (prepared - started) * 1000
        self.last_ms["submit"] = (perf_counter() - prepared) * 1000
        return submitted

    async def _run(self, plan: DevicePlan, inputs: Sequence[Input], returns: Returns) -> _Submitted:
        """Replay the segments; everything they need is prepared."""
        self._check_open()
        copies = input_copies(inputs, self._graph, self._memory, self._device)
        watched = any(isinstance(value, GpuTensor) for value in inputs)
        for segment in plan.segments[:-1]:
            await self._run_host_step(segment, copies, watched)
            self._check_open()
            copies, watched = [], False
        last, kept = plan.segments[-1], returns.copies(self._device)
        running = self._device.run(
            last.handle, last.payload.data, copies, returns.read, kept=kept, watched=watched
        )
        faults = None if returns.read else self._read_faults(last, inputs)
        return _Submitted(last, returns, running, faults, self._symint_outputs())

    def _symint_outputs(self) -> dict[int, int]:
        ids = [value_id for value_id in self._graph.outputs if self._graph.is_symint(value_id)]
        return {value_id: self._live.symint(value_id) for value_id in ids}

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the program was closed while this call was being prepared")

    def _read_faults(self, segment: Segment, inputs: Sequence[Input]) -> Awaitable[bytes] | None:
        """The word for faults alone, unless `_check_indices` has seen every index already."""
        arrays = host_arrays(inputs, self._graph)
        if all(value_id in arrays for fault in segment.faults for value_id, _ in fault.indices):
            return None
        assert self._memory.fault_buffer is not None
        return self._device.read(self._memory.fault_buffer, FAULT_BYTES)

    async def _results(self, submitted: _Submitted) -> list[Result | int]:
        started = perf_counter()
        try:
            data = await submitted.running
            word = data if submitted.faults is None else await submitted.faults
            if fault := submitted.segment.fault_in(word):
                self._memory.clear_faults()
                raise IndexRangeError(str(fault))
        except BaseException:
            submitted.returns.drop()
            raise
        self.ended = perf_counter()
        self.last_ms["wait"] = (self.ended - started) * 1000
        tensors, symints = iter(submitted.returns.results(data)), submitted.symints
        return [symints[i] if i in symints else next(tensors) for i in self._graph.outputs]

    async def _run_host_step(
        self, segment: Segment, copies: Sequence[GpuCopy], watched: bool
    ) -> None:
        """Replay up to an op without a kernel, run that one in NumPy, hand on what it gives."""
        assert segment.host is not None
        assert self._current is not None
        result = await self._device.run(
            segment.handle, segment.payload.data, copies, watched=watched
        )
        started = perf_counter()
        arrays = {output.value_id: output.unpack(result) for output in segment.outputs}
        step = segment.host
        run_reference(step.op, step.call, self._graph, self._live, arrays)
        segments = self._current.segments
        following = segments[segments.index(segment) + 1].payload
        for value_id in self._planner.writes(step):
            if value_id in following:
                following.fill(value_id, arrays[value_id], str(step.call))
        spent = (perf_counter() - started) * 1000
        self.host_ms[step.op.name] = self.host_ms.get(step.op.name, 0.0) + spent

    async def _prepare(self, inputs: Sequence[Input]) -> DevicePlan:
        """Bring shapes and SymInts up to date, and find or make the plan for them."""
        if self._closed:
            raise ClosedError("the program was closed")
        if len(inputs) != len(self._graph.inputs):
            raise ExecutionError(
                f"the delegate takes {len(self._graph.inputs)} inputs, not {len(inputs)}"
            )
        signature = tuple(
            (value.shape, isinstance(value, OnGpu))
            for value in inputs
            if not isinstance(value, int)
        )
        before = self._current
        self._planner.begin()
        try:
            plan = self._latest.get(signature)
            if plan is not None and (before is None or plan.key[0] != before.key[0]):
                self._planner.restore(plan.state)
                self._use(plan)
            elif before is not None and before.key[0] == signature:
                plan = before
            self._set_inputs(inputs)
            self._planner.propagate_resize()
            if plan is None or self._planner.changed:
                plan = await self._switch(signature)
            check_bounds(plan.bounds, self._live)
            self._check_indices(plan.segments[-1].faults, inputs)
        except BaseException:
            self._planner.rollback()
            self._current = before
            raise
        self._forget_plans()
        return plan

    def _check_indices(self, faults: Sequence[Faults], inputs: Sequence[Input]) -> None:
        """Before anything runs, for tensors of indices that the caller gave as arrays."""
        arrays = host_arrays(inputs, self._graph)
        for fault in faults:
            for value_id, size in fault.indices:
                array = arrays.get(value_id, _NO_INDICES)
                if array.size and (array.min() < -size or array.max() >= size):
                    raise IndexRangeError(str(fault))

    def _set_inputs(self, inputs: Sequence[Input]) -> None:
        by_id = dict(zip(self._graph.inputs, inputs, strict=True))
        for value_id, value in by_id.items():
            if isinstance(value, int):
                self._live.set_symint(value_id, value)
            else:
                self._live.set_cur_dims(value_id, value.shape)
        for source in self._symint_sources:
            value = by_id[source.input]
            assert isinstance(value, np.ndarray | int), "see `readable`"
            self._live.set_symint(source.symint, read_symint(source, value))

    async def profile(self) -> list[tuple[str, float]]:
        """Label and microseconds of each dispatch of the current plan, on whatever data is there.

        Runs the dispatches once more, so state such as caches is written once more, too.
        """
        assert self._current is not None
        timed: list[tuple[str, float]] = []
        for segment in self._current.segments:
            times = await self._device.profile(segment.handle)
            timed += zip(segment.labels, times, strict=True)
        return timed

    # Facts

    @property
    def host_ops(self) -> dict[str, int]:
        """Ops that run on the host at the live shapes, with counts."""
        counts: dict[str, int] = {}
        for item in self._planner.work():
            if isinstance(item, Step):
                counts[item.op.name] = counts.get(item.op.name, 0) + 1
        return counts

    def placements(self) -> dict[tuple[str, str], int]:
        """(op, "gpu" | "alias" | "host") to the number of calls, at the live shapes."""
        counts: dict[tuple[str, str], int] = {}
        for step in self._planner.steps:
            where = "host" if step.host or step.op.scalar else "gpu"
            key = (step.op.name, "alias" if step.aliased else where)
            counts[key] = counts.get(key, 0) + 1
        return counts

    @property
    def dispatches(self) -> int:
        return len(self._current.labels) if self._current else 0

    @property
    def pipelines(self) -> int:
        return len(self._factory.pipelines)

    @property
    def allocated(self) -> dict[int, int]:
        """GPU buffers by number, with their bytes."""
        return self._memory.allocated

    @property
    def hooks_fired(self) -> int:
        return self._planner.hooks_fired

    @property
    def lowerings(self) -> int:
        return self._planner.lowerings

    def close(self) -> None:
        """Free every buffer and plan; a second call does nothing."""
        self._closed = True
        for plan in self._plans.values():
            self._factory.destroy(plan)
        self._plans, self._latest, self._current = {}, {}, None
        self._memory.free()
