"""One delegate's graph on a GPU device: built once, then executed at whatever shapes come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webpte.gpu.device import Device, DeviceInfo, Progress, Transfer
from webpte.graph.graph import Graph, Tensor
from webpte.graph.live_state import LiveState
from webpte.ops import definition_of
from webpte.ops.core.target import Tunable, TunedConfigs
from webpte.plan.memory_plan import plan_memory
from webpte.plan.planner import Planner
from webpte.plan.shaders import ShaderLibrary
from webpte.rewrite.dataflow import Dataflow
from webpte.rewrite.fusion import fuse
from webpte.rewrite.passes import merge_duplicate_calls, separate_buffer_writes, store_halves
from webpte.rewrite.validate import (
    ConstantTransfer,
    check_arity,
    check_defined,
    constant_transfers,
    resolve_ops,
    symint_sources,
)
from webpte.runtime.base.lifetime import Lifetime
from webpte.runtime.execute.device_plan import DevicePlan, PlanFactory
from webpte.runtime.execute.guard import StateGuard
from webpte.runtime.execute.io_binding import Input, OutputPlacement, to_readable_inputs
from webpte.runtime.execute.memory import DelegateMemory
from webpte.runtime.execute.plan_selection import PlanSelector
from webpte.runtime.execute.replay import Prepared, SubmissionQueue
from webpte.runtime.execute.shared_weights import ConstantStore, conversion, shareable
from webpte.runtime.execute.timings import Timings
from webpte.runtime.load.fold_graph import fold_constants

# Plans kept per delegate: prefill lengths come and go, and each plan holds its bind groups.
MAX_PLANS = 32


class GpuDelegate:
    """Made by `create`; `execute` may be called again and again, also concurrently."""

    def __init__(
        self,
        graph: Graph,
        device: Device,
        library: ShaderLibrary,
        constants: ConstantStore,
        lifetime: Lifetime,
        strict: bool,
        borrowed: Mapping[int, int] | None = None,
        fused: bool = True,
        info: DeviceInfo | None = None,
    ) -> None:
        check_arity(graph)
        self.info = info or device.info
        if self.info.has_halves:
            graph = store_halves(graph)
        self._transfers = constant_transfers(graph)
        graph = merge_duplicate_calls(separate_buffer_writes(graph))
        check_defined(graph)
        if fused:
            graph = fuse(graph)
        ops = resolve_ops(graph)
        storage = plan_memory(graph, ops)
        self.graph = graph
        self.device = device
        self.lifetime = lifetime
        self._live = LiveState(graph)
        self._cut = self.info.choices  # how kernels are cut now: during a trial not as was chosen
        self.asked: dict[int, tuple[Tunable, ...]] = {}  # by each call, in the last trial
        self._asked_for: DevicePlan | None = None
        self._planner = Planner(graph, self._live, ops, storage, self.info.target)
        self._symints = graph.used_symints()
        sources = symint_sources(graph, ops)
        self._on_host = {source.input for source in sources}
        shared = shareable(graph, self._transfers, storage)
        self.memory = DelegateMemory(device, storage, self._symints, shared, constants, borrowed)
        self._factory = PlanFactory(
            graph, self._live, self._planner, self.memory, device, library, self._symints
        )
        self.preparer = PlanSelector(
            graph, self._live, self._planner, self._factory, sources, lifetime, strict, MAX_PLANS
        )
        self.guard = StateGuard(device, self.memory, sorted(Dataflow.of(graph).state))
        self.replayer = SubmissionQueue(
            graph,
            self._live,
            self._planner,
            self.preparer,
            self.memory,
            device,
            self._symints,
            lifetime,
        )
        self.lock = asyncio.Lock()
        self._all_read = [OutputPlacement.READ] * len(graph.outputs)
        self.transfers = 0

    @classmethod
    async def create(
        cls,
        graph: Graph,
        device: Device,
        library: ShaderLibrary,
        progress: Progress | None = None,
        strict: bool = False,
        constants: ConstantStore | None = None,
        lifetime: Lifetime | None = None,
        borrowed: Mapping[int, int] | None = None,
        fused: bool = True,
        info: DeviceInfo | None = None,
    ) -> GpuDelegate:
        """Allocate, compile and move constants; gives everything back if any of it fails.

        Delegates with one store of `constants` share those that they have in common. What is on
        the device stays for the `lifetime`, by default one that `close` ends. `borrowed` are inputs
        that are in memory of others. Without `fused` every call stays by itself. `info` is what to
        take the device for, if not for what it is.
        """
        lifetime = lifetime or Lifetime()
        store = constants or ConstantStore()
        if fused:
            graph = await fold_constants(graph)
        delegate = cls(graph, device, library, store, lifetime, strict, borrowed, fused, info)
        try:
            await delegate._build(progress)
        except BaseException:
            delegate._free()
            raise
        lifetime.hold(delegate._free)
        return delegate

    async def _build(self, progress: Progress | None) -> None:
        self.preparer.lower()
        await self.memory.allocate()
        # The GPU process compiles while this one reads the file. Both end before either's error
        # is raised: what is still under way cannot be given back.
        dispatches = self._planner.dispatches()
        compiling = asyncio.ensure_future(self._factory.compile(dispatches, progress))
        try:
            await self._transfer_constants(progress)
        finally:
            await asyncio.gather(compiling, return_exceptions=True)
        compiling.result()
        await self.preparer.declared()

    async def _transfer_constants(self, progress: Progress | None) -> None:
        """Everything that no other delegate has moved already."""
        moved = [t for t in self._transfers if self.memory.is_fresh(t.target.id)]
        transfers = [
            Transfer(
                region=transfer.constant.region.head(transfer.target.file_bytes),
                buffer=self.memory.buffer_of(transfer.target.id),
                convert=conversion(transfer.target),
            )
            for transfer in moved
            if transfer.target.file_bytes
        ]
        await self.device.transfer(transfers, progress)
        self.transfers = len(moved)

    # Tuning

    async def choose(self, choices: TunedConfigs) -> None:
        """Cut kernels so from now on."""
        self.info = replace(self.info, choices=choices)
        with self.lifetime.lease():
            async with self.lock:
                self.cut()

    def cut(self, trial: TunedConfigs | None = None) -> None:
        """Kernels as they were chosen, or for a run that tries others: so no other call ever has
        those that are on trial. Only for whoever has the lock."""
        wanted = self.info.choices if trial is None else trial
        if self._cut is not wanted:
            self._planner.retarget(replace(self.info.target, choices=wanted))
            self.preparer.plans.clear()
            self._cut = wanted

    def _ask(self, plan: DevicePlan) -> None:
        """What each call asks about the cut of its kernels, at the shapes of this plan."""
        if self._asked_for is not plan:
            self.asked = self._planner.retarget(replace(self.info.target, choices=self._cut))
            self._asked_for = plan

    # Execution

    @property
    def input_count(self) -> int:
        return len(self.graph.inputs)

    @property
    def outputs(self) -> list[Tensor]:
        return self.graph.tensor_outputs()

    @property
    def has_state(self) -> bool:
        return self.guard.has_state

    async def save_state(self) -> Callable[[], None]:
        """Returns what puts the state back as it is now; for callers that run alone."""
        with self.lifetime.lease():
            return await self.guard.save()

    async def execute(self, inputs: Sequence[Input]) -> list[Any]:
        """Run once: an array per tensor, an int per SymInt. After an error all is as before."""
        return await self.execute_mixed(inputs, self._all_read)

    async def execute_mixed(
        self,
        inputs: Sequence[Input],
        fates: Sequence[OutputPlacement],
        *,
        timings: Timings | None = None,
        dry_run: bool = False,
        guarded: bool = False,
        trial: TunedConfigs | None = None,
    ) -> list[Any]:
        """Run once; `fates` says what becomes of each tensor. SymInts are always on the host.

        With `timings` every kernel is timed. A `dry_run` leaves state as it was, and can be the
        `trial` of other cuts of kernels. If it is `guarded`, the caller puts state back, for a
        method that may call this twice.
        """
        replayer = self.replayer
        with self.lifetime.lease():
            async with self.lock:  # calls run in the order in which they came
                self.cut(trial)
                self.guard.settle()
                usual = fates is self._all_read and timings is None and not dry_run
                submitted = replayer.again(inputs) if usual else None
                if submitted is None:
                    given = await self.to_readable_inputs(inputs)
                    self.guard.settle()
                    call = await replayer.prepare(given, fates, timings)
                    if trial is not None:
                        self._ask(call.plan)
                    if not guarded and (dry_run or self.may_spoil_state(call)):
                        return await self._execute_guarded(call, dry_run)
                    submitted = await replayer.submit(call)
            return await replayer.results(submitted)

    def may_spoil_state(self, call: Prepared) -> bool:
        """Whether a call can fail after some of its kernels have written state."""
        if not self.has_state:
            return False
        return call.is_split or not self.preparer.are_checked(call.plan, call.inputs)

    async def _execute_guarded(self, call: Prepared, dry_run: bool) -> list[Any]:
        """No other call may come between what a call writes and its being put back."""
        try:
            async with self.guard.guarding(dry_run):
                return await self.replayer.results(await self.replayer.submit(call))
        except BaseException:
            call.returns.drop()
            raise

    async def execute_unread(self, inputs: Sequence[Input]) -> None:
        """Run once for its effect on state alone."""
        await self.execute_mixed(inputs, [OutputPlacement.LEND] * len(self.graph.outputs))

    async def to_readable_inputs(self, inputs: Sequence[Input]) -> list[Input]:
        return await to_readable_inputs(inputs, self.graph, self._on_host, self.device)

    # Facts

    @property
    def executions(self) -> int:
        return self.replayer.executions

    @property
    def last_ms(self) -> dict[str, float]:
        """Milliseconds of the last execution: prepare, submit, wait."""
        return self.replayer.last_ms

    @property
    def ended(self) -> float:
        """When the last execution did, by `perf_counter`."""
        return self.replayer.ended

    @property
    def host_ms(self) -> dict[str, float]:
        """Op name to milliseconds spent on the host, in all."""
        return self.replayer.host_ms

    @property
    def host_ops(self) -> dict[str, int]:
        """Ops that run on the host at the live shapes, with counts."""
        return self.preparer.host_ops

    def placements(self) -> dict[tuple[str, str], int]:
        """(op or kernel, "gpu" | "alias" | "host") to the number of calls, at the live shapes.

        The calls are those of the file: of a fused one, its parts.
        """
        counts: dict[tuple[str, str], int] = {}
        for step in self._planner.calls:
            where = "host" if step.host or step.op.scalar else "gpu"
            for call in step.call.parts or (step.call,):
                op = definition_of(call)
                assert op is not None, "see resolve_ops"
                view = bool(op.alias_of) if step.call.parts else step.aliased
                key = (call.kernel or op.name, "alias" if view else where)
                counts[key] = counts.get(key, 0) + 1
        return counts

    @property
    def live(self) -> LiveState:
        """Shapes and SymInts of the last call."""
        return self._live

    @property
    def planner(self) -> Planner:
        """What each call comes to at the live shapes."""
        return self._planner

    @property
    def factory(self) -> PlanFactory:
        return self._factory

    @property
    def symints(self) -> list[int]:
        """Those that go up with every call."""
        return self._symints

    def constants(self) -> dict[int, ConstantTransfer]:
        """By value: the bytes of the file that it starts with."""
        return {transfer.target.id: transfer for transfer in self._transfers}

    @property
    def _current(self) -> DevicePlan | None:
        """The plan of the last call, or of the shapes in the file."""
        return self.preparer.plans.current

    @property
    def dispatches(self) -> int:
        return len(self._current.labels) if self._current else 0

    @property
    def pipelines(self) -> int:
        return len(self._factory.pipelines)

    @property
    def allocated(self) -> dict[int, int]:
        """GPU buffers by number, with their bytes."""
        return self.memory.allocated

    @property
    def hooks_fired(self) -> int:
        return self._planner.hooks_fired

    @property
    def lowerings(self) -> int:
        return self._planner.lowerings

    def close(self) -> None:
        """End its lifetime: everything is freed once the calls under way have ended."""
        self.lifetime.end("the delegate was closed")

    def _free(self) -> None:
        self.preparer.plans.clear()
        self.memory.free()
