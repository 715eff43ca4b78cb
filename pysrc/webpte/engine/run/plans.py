"""Selection of the plan for a run, as a transaction.

Shapes and SymInts are updated, all inputs are checked, and only then is a plan looked up or made.
If any step fails, the live state, the steps and the plans are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from webpte.engine.call.call import Lifetime
from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.records import IndexFlag
from webpte.engine.plan.planner import PlannedCall, Planner, check_bounds
from webpte.engine.rewrite.validate import SymIntSource, read_symint
from webpte.engine.run.device_plan import (
    DevicePlan,
    PlanFactory,
    PlanKey,
    Signature,
    index_flags_of,
)
from webpte.engine.run.io import Input, OnGpu, host_arrays
from webpte.engine.run.request import RunRequest
from webpte.errors import ExecutionError, IndexRangeError, UnsupportedOpError


class PlanCache:
    """A cache of plans that destroys the least recently used plan, but never the latest."""

    def __init__(self, destroy: Callable[[DevicePlan], None], most: int) -> None:
        self._destroy = destroy
        self.most = most
        self._plans: dict[PlanKey, DevicePlan] = {}  # the least recently used first
        self._latest: dict[Signature, DevicePlan] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def find(self, key: PlanKey) -> DevicePlan | None:
        return self._plans.get(key)

    def latest(self, signature: Signature) -> DevicePlan | None:
        """Return the plan of the latest inputs of these shapes, or None."""
        return self._latest.get(signature)

    def use(self, plan: DevicePlan) -> None:
        """Add a plan, or mark a cached plan as used."""
        self._plans.pop(plan.key, None)
        self._plans[plan.key] = plan
        self._latest[plan.key[0]] = plan
        self._forget()

    def _forget(self) -> None:
        while len(self._plans) > self.most:
            oldest = self._plans.pop(next(iter(self._plans)))
            if self._latest.get(oldest.key[0]) is oldest:
                del self._latest[oldest.key[0]]
            self._destroy(oldest)

    def clear(self) -> None:
        for plan in self._plans.values():
            self._destroy(plan)
        self._plans, self._latest = {}, {}


class PlanSelector:
    """Finds or builds the plan for each run of a delegate, for a single run at a time.

    `current` is the plan of the last run, or of the shapes in the file.
    """

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        planner: Planner,
        factory: PlanFactory,
        symint_sources: Sequence[SymIntSource],
        lifetime: Lifetime,
        strict: bool,
        max_plans: int,
    ) -> None:
        self._graph = graph
        self._live = live
        self._planner = planner
        self._factory = factory
        self._symint_sources = symint_sources
        self._lifetime = lifetime
        self._strict = strict
        self._has_symints = any(isinstance(value, SymIntValue) for value in graph.values)
        self._cache = PlanCache(factory.destroy, max_plans)
        self.current: DevicePlan | None = None

    def keep(self, most: int) -> None:
        """Keep up to this number of plans from now on."""
        self._cache.most = most

    def clear(self) -> None:
        """Destroy all plans."""
        self.current = None
        self._cache.clear()

    def lower(self) -> None:
        """Lower every call once, at the shapes that the file declares."""
        self._planner.lower_all()
        self._check_strict()

    async def plan_declared_shapes(self) -> None:
        """Build the plan for the declared shapes, unless they depend on unknown SymInts."""
        if not self._planner.unsettled:
            tensors = [self._graph.tensor(i) for i in self._graph.inputs if self._is_tensor(i)]
            self._use(await self._plan(tuple((t.dims, False) for t in tensors)))

    def _is_tensor(self, value_id: int) -> bool:
        return not self._graph.is_symint(value_id)

    def last_if_same(self, request: RunRequest) -> DevicePlan | None:
        """Return the current plan if only the contents of the arrays differ from the last run.

        Then there are no shapes to propagate, and only indices to check, all of which are in these
        arrays: the submitted work cannot fail because of the contents of a tensor.
        """
        plan, inputs = self.current, request.inputs
        if plan is None or self._has_symints or plan.can_fail_late or plan.has_gpu_inputs:
            return None
        if len(inputs) != len(plan.host_dims):
            return None
        for value, dims in zip(inputs, plan.host_dims, strict=True):
            if not isinstance(value, np.ndarray) or value.shape != dims:
                return None
        if plan.segments[0].faults:
            self._check_indices(plan.segments[0].faults, inputs)
        return plan

    async def for_request(self, request: RunRequest) -> DevicePlan:
        """Return the plan for these inputs, and make it the current plan."""
        inputs = request.inputs
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
            plan = self._last_plan_for(signature)
            self._set_inputs(inputs)
            self._planner.propagate_resize()
            if plan is None or self._planner.changed:
                plan = await self._plan(signature, inputs)
            else:
                check_bounds(plan.bounds, self._live)
                self._check_indices(plan.segments[-1].faults, inputs)
        self._use(plan)
        return plan

    def _use(self, plan: DevicePlan) -> None:
        if plan is not self.current:
            self._cache.use(plan)
            self.current = plan

    def _last_plan_for(self, signature: Signature) -> DevicePlan | None:
        """Return the plan of the latest inputs of these shapes, and restore its live state."""
        current, latest = self.current, self._cache.latest(signature)
        if current is not None and current.signature == signature:
            return current
        if latest is not None:
            self._planner.restore(latest.state)
        return latest

    async def _plan(
        self, signature: Signature, inputs: Sequence[Input] | None = None
    ) -> DevicePlan:
        """Check all inputs, then find or build the plan for the live shapes."""
        self._check_strict()
        key = self._factory.key(signature)
        _, work, _, bounds = key
        if inputs is not None:
            check_bounds(bounds, self._live)
            self._check_indices(tuple(index_flags_of(work)), inputs)
        plan = self._cache.find(key)
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
        """Number of calls that run on the host at the live shapes, by op."""
        counts: dict[str, int] = {}
        for item in self._planner.work():
            if isinstance(item, PlannedCall):
                counts[item.op.name] = counts.get(item.op.name, 0) + 1
        return counts

    def _check_indices(self, faults: Sequence[IndexFlag], inputs: Sequence[Input]) -> None:
        """Raise if an array of indices among the inputs has an index out of range."""
        arrays = host_arrays(inputs, self._graph)
        for fault in faults:
            for value_id, size in fault.indices:
                array = arrays.get(value_id)
                if array is None or not array.size:
                    continue
                if not fault.least(size) <= array.min() <= array.max() < size:
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
            assert isinstance(value, np.ndarray | int), "see `to_readable_inputs`"
            self._live.set_symint(source.symint, read_symint(source, value))
