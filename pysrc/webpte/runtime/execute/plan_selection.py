"""From the inputs of a call to the plan that runs it, whole or not at all.

Shapes and SymInts are brought up to date, everything that can be wrong with them is checked, and
only then is a plan looked up or made. If any of this fails, the live state, the steps and the plans
are as they were before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from webpte.errors import ExecutionError, IndexRangeError, ResizeError, UnsupportedOpError
from webpte.format.vulkan import SymIntValue
from webpte.graph.graph import Graph
from webpte.graph.live_state import LiveState
from webpte.ops.core.records import IndexFlag
from webpte.plan.planner import PlannedCall, Planner, check_bounds
from webpte.rewrite.validate import SymIntSource, read_symint
from webpte.runtime.base.lifetime import Lifetime
from webpte.runtime.execute.device_plan import DevicePlan, PlanFactory, Signature, faults_of
from webpte.runtime.execute.io_binding import Input, OnGpu, host_arrays
from webpte.runtime.execute.plan_cache import PlanCache


class _ChangedError(Exception):
    """The commands are others at these inputs."""


class PlanSelector:
    """Finds the plan for a call of one delegate; one call at a time."""

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        planner: Planner,
        factory: PlanFactory,
        symint_sources: Sequence[SymIntSource],
        lifetime: Lifetime,
        strict: bool,
        most_plans: int,
    ) -> None:
        self._graph = graph
        self._live = live
        self._planner = planner
        self._factory = factory
        self._symint_sources = symint_sources
        self._lifetime = lifetime
        self._strict = strict
        self._has_symints = any(isinstance(value, SymIntValue) for value in graph.values)
        self.plans = PlanCache(factory.destroy, most_plans)

    def lower(self) -> None:
        """Everything once, at the shapes that the file declares."""
        self._planner.lower_all()
        self._check_strict()

    async def declared(self) -> None:
        """Make the plan for the shapes that the file declares, if they tell enough for one."""
        if not self._planner.unsettled:
            tensors = [self._graph.tensor(i) for i in self._graph.inputs if self._is_tensor(i)]
            self.plans.use(await self._plan(tuple((t.dims, False) for t in tensors)))

    def _is_tensor(self, value_id: int) -> bool:
        return not self._graph.is_symint(value_id)

    async def prepare(self, inputs: Sequence[Input]) -> DevicePlan:
        """The plan for these inputs, made the current one."""
        if len(inputs) != len(self._graph.inputs):
            raise ExecutionError(
                f"the delegate takes {len(self._graph.inputs)} inputs, not {len(inputs)}"
            )
        signature = tuple(
            (value.shape, isinstance(value, OnGpu))
            for value in inputs
            if not isinstance(value, int)
        )
        with self._planner.transaction():
            plan = self._likely(signature)
            self._set_inputs(inputs)
            self._planner.propagate_resize()
            if plan is None or self._planner.changed:
                plan = await self._plan(signature, inputs)
            else:
                check_bounds(plan.bounds, self._live)
                self._check_indices(plan.segments[-1].faults, inputs)
        self.plans.use(plan)
        return plan

    def again(self, inputs: Sequence[Input]) -> DevicePlan | None:
        """The current plan, if all that is new about a call is what is in its arrays.

        There is nothing to bring up to date then, and nothing to check but indices, of which none
        may come from elsewhere: what is submitted now cannot fail for what is in tensors.
        """
        plan = self.plans.current
        if plan is None or not plan.is_one_replay or self._has_symints:
            return None
        signature = tuple((value.shape, False) for value in inputs if isinstance(value, np.ndarray))
        if signature != plan.key[0] or len(inputs) != len(signature):
            return None
        faults = plan.segments[0].faults
        return plan if not faults or self._check_indices(faults, inputs) else None

    def follow(self, inputs: Sequence[Input]) -> bool:
        """Whether the current plan serves these inputs, too; if it does, they are the live ones.

        If not, all is as before: nothing is raised, since nobody has asked for these inputs yet.
        """
        plan = self.plans.current
        assert plan is not None
        try:
            with self._planner.transaction():
                self._set_inputs(inputs)
                self._planner.propagate_resize()
                if self._planner.changed:
                    raise _ChangedError
                check_bounds(plan.bounds, self._live)
                self._check_indices(plan.segments[-1].faults, inputs)
        except (_ChangedError, ResizeError, IndexRangeError):
            return False
        return True

    def _likely(self, signature: Signature) -> DevicePlan | None:
        """The plan that inputs of these shapes had the last time, with its state restored."""
        current, latest = self.plans.current, self.plans.latest(signature)
        if current is not None and current.key[0] == signature:
            return current
        if latest is not None:
            self._planner.restore(latest.state)
        return latest

    async def _plan(
        self, signature: Signature, inputs: Sequence[Input] | None = None
    ) -> DevicePlan:
        """The plan for the live shapes: one made before, or a new one, once all is checked."""
        self._check_strict()
        key = self._factory.key(signature)
        _, work, _, bounds = key
        if inputs is not None:
            check_bounds(bounds, self._live)
            self._check_indices(tuple(faults_of(work)), inputs)
        plan = self.plans.find(key)
        if plan is not None:
            return plan
        plan = await self._factory.make(key)
        try:
            self._lifetime.check()
        except BaseException:
            self._factory.destroy(plan)
            raise
        return plan

    def _check_strict(self) -> None:
        if self._strict and (refused := self.host_ops):
            raise UnsupportedOpError("strict=True, and no kernel takes these", refused)

    @property
    def host_ops(self) -> dict[str, int]:
        """Ops that run on the host at the live shapes, with counts."""
        counts: dict[str, int] = {}
        for item in self._planner.work():
            if isinstance(item, PlannedCall):
                counts[item.op.name] = counts.get(item.op.name, 0) + 1
        return counts

    def _check_indices(self, faults: Sequence[IndexFlag], inputs: Sequence[Input]) -> bool:
        """Before anything runs, for tensors of indices that the caller gave as arrays.

        Returns whether these were all.
        """
        arrays, every = host_arrays(inputs, self._graph), True
        for fault in faults:
            for value_id, size in fault.indices:
                array = arrays.get(value_id)
                if array is None:
                    every = False
                elif array.size and not -size <= array.min() <= array.max() < size:
                    raise IndexRangeError(str(fault))
        return every

    def are_checked(self, plan: DevicePlan, inputs: Sequence[Input]) -> bool:
        """Whether every index that a plan's kernels look at was seen here already."""
        arrays = host_arrays(inputs, self._graph)
        faults = plan.segments[-1].faults
        return all(value_id in arrays for fault in faults for value_id, _ in fault.indices)

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
