"""A delegate's graph on a GPU device: built once, then run at any shapes that the graph allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from time import perf_counter
from typing import Any

from webpte.engine.call.call import Lifetime
from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import Device, Transfer
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.graph.graph import Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.load.fold_graph import fold_constants
from webpte.engine.ops import definition_of
from webpte.engine.ops.core.target import Tunable, TunedConfigs
from webpte.engine.plan.binding_limits import check_bindable
from webpte.engine.plan.memory_plan import kept_inputs
from webpte.engine.plan.planner import Planner
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import ConstantTransfer, symint_sources
from webpte.engine.run.device_plan import DevicePlan, PlanFactory
from webpte.engine.run.guard import StateGuard
from webpte.engine.run.io import Input, to_readable_inputs
from webpte.engine.run.memory import DelegateMemory
from webpte.engine.run.plans import PlanSelector
from webpte.engine.run.prepared_graph import prepare_graph
from webpte.engine.run.request import DryRun, RunRequest
from webpte.engine.run.shared_weights import ConstantStore, conversion, shareable
from webpte.engine.run.submission_queue import PreparedRun, SubmissionQueue

# Plans kept per delegate: prefill lengths come and go, and each plan holds its bind groups.
MAX_PLANS = 32
NO_BUFFER = -1  # Memory bound in place of tensors that nothing reads.


class GpuDelegate:
    """A graph on a device, built by `create`; runs may overlap.

    `plans` finds the plan of each run, and `queue` submits it.
    """

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
        self.info = info or device.info
        prepared = prepare_graph(graph, self.info, fused, borrowed or ())
        graph, ops, storage = prepared.graph, prepared.ops, prepared.storage
        check_bindable(graph, storage, self.info.binding_bytes)
        self._transfers = prepared.transfers
        self.graph = graph
        self.device = device
        self.lifetime = lifetime
        self.live = LiveState(graph)  # shapes and SymInts of the last run
        self.planner = Planner(graph, self.live, ops, storage, self.info.target)
        self.symints = graph.used_symints()  # SymInts uploaded with every run
        self.symint_sources = symint_sources(graph, ops)
        self._on_host = {source.input for source in self.symint_sources}
        shared = shareable(graph, self._transfers, storage)
        stored = {storage.slot_of[transfer.target.id] for transfer in self._transfers}
        self.memory = DelegateMemory(
            *(device, storage, self.symints, stored, shared, constants, borrowed),
            most_bytes=self.info.binding_bytes,
        )
        self.factory = PlanFactory(
            graph, self.live, self.planner, self.memory, device, library, self.symints
        )
        self.plans = PlanSelector(
            *(graph, self.live, self.planner, self.factory, self.symint_sources),
            *(lifetime, strict, MAX_PLANS),
        )
        self.queue = SubmissionQueue(graph, self.live, self.memory, device, lifetime)
        self.times = self.queue.times
        self.guard = StateGuard(device, self.memory, sorted(Dataflow.of(graph).state))
        self.lock = asyncio.Lock()
        self._plain_turn = _DelegateTurn(self, None)
        # configs of the last run: during a trial not the chosen configs
        self._configs = self.info.choices
        # tile configs to choose from, by call, as found in the last trial
        self.tunables: dict[int, tuple[Tunable, ...]] = {}
        self._tunables_of: DevicePlan | None = None
        self.transfers = 0
        self.kept_inputs = kept_inputs(graph)
        self.kept_writes = 0  # runs that may have changed the memory of the kept inputs
        self.sampled_writes = 0  # `kept_writes` at the last run with a sampler of any kind

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
        """Allocate, compile and upload constants; free everything if any step fails.

        Delegates with the same store of `constants` share equal constants; by default a delegate
        shares with no other. Memory stays for the `lifetime`, by default until `close`. `borrowed`
        maps inputs to buffers of other owners. Without `fused` no calls are fused. `info` overrides
        the info of the device.
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
        self.plans.lower()
        await self.memory.allocate()
        # The GPU process compiles while Python reads the file. Both tasks end before an error of
        # either is raised: memory of a task still under way cannot be given back.
        dispatches = self.planner.dispatches()
        compiling = asyncio.ensure_future(self.factory.compile(dispatches, progress))
        try:
            await self._transfer_constants(progress)
        finally:
            await asyncio.gather(compiling, return_exceptions=True)
        compiling.result()
        await self.plans.plan_declared_shapes()

    async def _transfer_constants(self, progress: Progress | None) -> None:
        """Upload the constants that no other delegate has uploaded already."""
        moved = [t for t in self._transfers if self.memory.needs_upload(t.target.id)]
        transfers = [
            Transfer(
                region=transfer.constant.region.head(transfer.target.file_bytes),
                buffer=self.memory.buffer_of(transfer.target.id),
                convert=conversion(transfer.target),
            )
            for transfer in moved
            if transfer.target.file_bytes and transfer.constant.region.size
        ]
        await self.device.transfer(transfers, progress)
        self.memory.share_constants()
        self.transfers = len(moved)

    # Tuning

    async def use_configs(self, configs: TunedConfigs) -> None:
        """Use these tile configs from now on."""
        self.info = replace(self.info, choices=configs)
        with self.lifetime.lease():
            async with self.turn():
                pass

    def select_configs(self, trial: TunedConfigs | None = None) -> None:
        """Lower for the chosen tile configs, or the configs on trial; the caller holds the lock.

        Every run selects its configs again, so no other run ever sees configs that are on trial.
        """
        wanted = self.info.choices if trial is None else trial
        if self._configs is not wanted:
            self.planner.retarget(replace(self.info.target, choices=wanted))
            self.plans.clear()
            self._configs = wanted

    def _find_tunables(self, plan: DevicePlan) -> None:
        """Update `tunables` to the shapes of this plan."""
        if self._tunables_of is not plan:
            self.tunables = self.planner.retarget(replace(self.info.target, choices=self._configs))
            self._tunables_of = plan

    # Runs

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
        """Return a function that restores the present state; for callers that run alone."""
        with self.lifetime.lease():
            return await self.guard.save()

    async def run(self, request: RunRequest) -> list[Any]:
        """Run once: a tensor or an int per output. An error leaves the state unchanged."""
        with self.lifetime.lease():
            async with self.turn(request.dry_run):
                run = await self.prepare(request)
                is_dry = request.dry_run is not None
                if (is_dry or self.may_spoil_state(run)) and not request.caller_restores:
                    return await self._run_guarded(run)
                submission = await self.queue.submit(run)
            return await submission.outputs()

    def turn(self, dry_run: DryRun | None = None) -> _DelegateTurn:
        """Wait for this run's turn: runs are submitted in the order in which they came."""
        return self._plain_turn if dry_run is None else _DelegateTurn(self, dry_run.configs)

    def take_turns_with(self, other: GpuDelegate) -> None:
        """Share the lock and state guard of a delegate with the same state."""
        self.lock, self.guard = other.lock, other.guard

    async def prepare(self, request: RunRequest) -> PreparedRun:
        """Do all steps of a run that come before its submission; the caller has the turn."""
        started = perf_counter()
        plan = self.plans.last_if_same(request)
        if plan is None:
            inputs = await to_readable_inputs(
                request.inputs, self.graph, self._on_host, self.device
            )
            request = request._replace(inputs=inputs)
            plan = await self.plans.for_request(request)
        if request.dry_run is not None and request.dry_run.configs is not None:
            self._find_tunables(plan)
        if self.kept_inputs and not self._are_kept(request.inputs):
            self.kept_writes += 1
        return await self.queue.prepare(plan, request, started)

    def _are_kept(self, inputs: Sequence[Input]) -> bool:
        """Return whether the kept inputs of a step are the arrays already in their memory."""
        given = dict(zip(self.graph.inputs, inputs, strict=True))
        kept = [given[i] for i in self.kept_inputs]
        pairs = zip(kept, self.kept_tensors(), strict=True)
        return all(isinstance(a, DeviceTensor) and a.buffer == b.buffer for a, b in pairs)

    def kept_tensors(self) -> list[DeviceTensor]:
        """Return the inputs shared by all steps of a decoder, at their places, in their shapes."""
        tensors = [self.graph.tensor(i) for i in self.kept_inputs]
        return [
            DeviceTensor(
                self.memory.buffer_of(one.id) if self.memory.holds(one.id) else NO_BUFFER,
                one.dtype,
                one.dtype.storage,
                self.live.cur_dims(one.id),
            )
            for one in tensors
        ]

    def may_spoil_state(self, run: PreparedRun) -> bool:
        """Return whether a run can fail after some of its kernels have written state."""
        return run.plan.can_fail_late and self.has_state

    async def _run_guarded(self, run: PreparedRun) -> list[Any]:
        """Run to the end within this turn, and restore state after an error or a dry run."""
        try:
            async with self.guard.guarding(run.request.dry_run is not None):
                submission = await self.queue.submit(run)
                return await submission.outputs()
        except BaseException:
            run.owned.destroy()
            raise

    # Facts

    @property
    def executions(self) -> int:
        return self.times.executions

    @property
    def host_ops(self) -> dict[str, int]:
        """Number of calls that run on the host at the live shapes, by op."""
        return self.plans.host_ops

    def placements(self) -> dict[tuple[str, str], int]:
        """Number of calls at the live shapes, by (op or kernel, "gpu" | "alias" | "host").

        The calls are the calls in the file: a fused call counts as its parts.
        """
        counts: dict[tuple[str, str], int] = {}
        for step in self.planner.calls:
            where = "host" if step.host or step.op.scalar else "gpu"
            for call in step.call.parts or (step.call,):
                op = definition_of(call)
                assert op is not None, "see resolve_ops"
                view = bool(op.alias_of) if step.call.parts else step.aliased
                key = (call.kernel or op.name, "alias" if view else where)
                counts[key] = counts.get(key, 0) + 1
        return counts

    def constants(self) -> dict[int, ConstantTransfer]:
        """Map value ids to their constants' initial contents."""
        return {transfer.target.id: transfer for transfer in self._transfers}

    @property
    def dispatches(self) -> int:
        plan = self.plans.current
        return 0 if plan is None else len(plan.labels)

    @property
    def pipelines(self) -> int:
        return len(self.factory.pipelines)

    @property
    def allocated(self) -> dict[int, int]:
        """Size in bytes of each GPU buffer, by number."""
        return self.memory.allocated

    @property
    def hooks_fired(self) -> int:
        return self.planner.hooks_fired

    @property
    def lowerings(self) -> int:
        return self.planner.lowerings

    def close(self) -> None:
        """End the delegate's lifetime: everything is freed once the calls under way have ended."""
        self.lifetime.end("the delegate was closed")

    def _free(self) -> None:
        self.plans.clear()
        self.memory.free()


class _DelegateTurn(AbstractAsyncContextManager[None]):
    """A run's turn on a delegate: selects the tile configs, and restores state at the end."""

    __slots__ = ("_delegate", "_trial")

    def __init__(self, delegate: GpuDelegate, trial: TunedConfigs | None) -> None:
        self._delegate = delegate
        self._trial = trial

    async def __aenter__(self) -> None:
        delegate = self._delegate
        await delegate.lock.acquire()
        try:
            delegate.select_configs(self._trial)
            if delegate.guard.restore_pending:
                delegate.guard.apply_pending_restore()
        except BaseException:
            delegate.lock.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._delegate.lock.release()
