"""The planner: lowers calls to dispatches, again when shapes change.

Every call is a resize hook for the values that it reads. `propagate_resize` runs the hooks of dirty
values in graph order: each recomputes its output's live dims and lowers its call again. The graph
is ordered, so a single pass is enough; a graph that feeds a value back to an earlier call gets as
many passes as it has calls, and then an error. A static graph never fires a hook.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.graph.graph import Call, Graph, Tensor
from webpte.engine.graph.live_state import LiveState, Snapshot
from webpte.engine.ops import OpDef
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Dispatch, Record, RelowerGuard, SymIntBound
from webpte.engine.ops.core.target import GPU, Target, Tunable
from webpte.engine.ops.move.symint import SELECT_AS_SYMINT
from webpte.engine.plan.memory_plan import MemoryPlan
from webpte.engine.plan.merged_shares import SharesMerger
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.errors import GraphError, ResizeError, UnsupportedError, WebpteError, told_at


@contextmanager
def located_at(call: Call) -> Iterator[None]:
    """Name the call in errors that are raised inside; foreign exceptions become GraphErrors.

    Shape functions, lowerings and references only check for faults that valid files can have. An
    exception of Python or NumPy in such a function means that the file is broken.
    """

    try:
        yield
    except Exception as error:
        message = str(error)
        if not isinstance(error, WebpteError):
            message = f"{call}: {type(error).__name__}: {error}"
        elif not any(str(each) in message for each in (call, *call.parts)):
            message = f"{call}: {error}"
        told = told_at(error, message, GraphError)
        if told is error:
            raise
        raise told from error


def resize_outputs(op: OpDef, args: Args, live: LiveState) -> bool:
    """Set the live dims of a call's outputs; return whether any changed."""
    shapes = [tuple(dims) for dims in op.shape(args)]
    outs = args.outs if shapes else []
    if len(shapes) != len(outs):
        raise GraphError(f"returns {len(shapes)} tensors, but the file has {len(outs)} outputs")
    for out, dims in zip(outs, shapes, strict=True):
        live.set_cur_dims(out.id, dims)
    return any(out.dims != dims for out, dims in zip(outs, shapes, strict=True))


def check_bounds(bounds: Iterable[SymIntBound], live: LiveState) -> None:
    """Raise if a live SymInt is outside of a range that an op relies on."""
    for bound in bounds:
        value = live.symint(bound.value_id)
        if not bound.low <= value <= bound.high:
            raise ResizeError(f"{bound.why}: {value} is not in {bound.low} to {bound.high}")


def host_sets_symints(graph: Graph) -> bool:
    """Return whether inputs set SymInts, which are then unknown before the first run."""
    given = any(graph.is_symint(i) for i in graph.inputs)
    return given or any(call.name == SELECT_AS_SYMINT for call in graph.calls)


@dataclass(eq=False)
class PlannedCall:
    """A call with its records at the live shapes.

    `host` is the reason why it runs on the host (no kernel takes its arguments), or None.
    """

    call: Call
    op: OpDef
    aliased: bool
    records: tuple[Record, ...] = ()
    host: str | None = None

    def set(self, records: tuple[Record, ...], host: str | None) -> None:
        self.records, self.host = records, host

    @property
    def guard(self) -> RelowerGuard | None:
        """The call's relower guard, always its first record; None without a guard."""
        first = self.records[0] if self.records else None
        return first if isinstance(first, RelowerGuard) else None


# Indices of calls to visit; True: lower in any case, False: lower unless its guard holds.
Pending = dict[int, bool]


@dataclass(frozen=True)
class PlannerState:
    """The state of a shape signature, to switch back to without lowering."""

    live: Snapshot
    calls: tuple[tuple[tuple[Record, ...], str | None], ...]


class Planner:
    """The planned calls of a graph, and the resize hooks between them."""

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        ops: dict[int, OpDef],
        memory_plan: MemoryPlan,
        target: Target = GPU,
    ) -> None:
        self._graph = graph
        self._target = target
        self._merger = SharesMerger(graph, memory_plan)
        self._live = live
        self.calls = [
            PlannedCall(graph.calls[index], op, index in memory_plan.aliased_calls)
            for index, op in sorted(ops.items())
        ]
        self._hooks = self._find_hooks()
        self.hooks_fired = 0
        self.lowerings = 0
        self.changed = False  # whether records or dims changed in the last transaction
        self.unsettled: set[int] = set()  # calls that could not be lowered yet
        self._undo: list[Callable[[], None]] = []

    def _find_hooks(self) -> dict[int, list[int]]:
        """Map each value id to the calls to lower again when it changes."""
        hooks: dict[int, list[int]] = {}
        for index, planned in enumerate(self.calls):
            args = planned.op.bind(planned.call, self._graph, self._live)
            ids = [i for parameter, i in args.given if parameter.decides]
            for value_id in set(self._graph.expand(tuple(ids))):
                if isinstance(self._graph.value(value_id), Tensor | SymIntValue):
                    hooks.setdefault(value_id, []).append(index)
        return hooks

    def readers_of(self, value_id: int) -> Sequence[int]:
        """Return the indices in `calls` of the calls to lower again when a value changes."""
        return self._hooks.get(value_id, ())

    def lower_all(self) -> None:
        """Lower every call once, at the shapes that the file declares.

        SymInts that the host sets are not known yet: a call that cannot be lowered at their initial
        values is lowered with the first execution.
        """
        fixed = not any(isinstance(value, SymIntValue) for value in self._graph.values)
        fed = host_sets_symints(self._graph)
        for index, planned in enumerate(self.calls):
            declared = {out.id: out.dims for out in self._outs(planned)}
            try:
                self._lower(planned)
            except WebpteError:
                if not fed:
                    raise
                self.unsettled.add(index)
            for out in self._outs(planned):
                if fixed and out.dims != declared[out.id]:
                    raise GraphError(
                        f"{planned.call}: returns {list(out.dims)}, but the file declares "
                        f"{list(declared[out.id])} for value {out.id}"
                    )
        self._live.take_dirty()

    def retarget(self, target: Target) -> dict[int, tuple[Tunable, ...]]:
        """Lower every call for another target; return the tunables that each call chose from.

        If that fails, everything stays as before.
        """
        old, tunables = self._target, list[Tunable]()
        found = {}
        try:
            with self.transaction():
                self._target = replace(target, asked=tunables)
                for index, planned in enumerate(self.calls):
                    if index not in self.unsettled:
                        self._lower(planned)
                    found[planned.call.index] = tuple(tunables)
                    tunables.clear()
                self._target = target
        except BaseException:
            self._target = old
            raise
        return {call: questions for call, questions in found.items() if questions}

    def _outs(self, planned: PlannedCall) -> list[Tensor]:
        """Return the output tensors at their live dims."""
        tensors = (self._graph.value(i) for i in self._graph.expand(planned.call.args[-1:]))
        return [
            Tensor(t.id, t.dtype, self._live.cur_dims(t.id), t.constant, t.mem_obj_id)
            for t in tensors
            if isinstance(t, Tensor)
        ]

    def _lower(self, planned: PlannedCall) -> None:
        with located_at(planned.call):
            args = planned.op.bind(planned.call, self._graph, self._live, target=self._target)
            self.changed |= resize_outputs(planned.op, args, self._live)
            if planned.op.scalar is not None:
                args.set_symint_out(planned.op.scalar(args))
            records, host = self._lowered(planned, args)
        if (records, host) != (planned.records, planned.host):
            self._set(planned, records, host)
            self.changed = True
        self.lowerings += planned.op.scalar is None

    def _lowered(self, planned: PlannedCall, args: Args) -> tuple[tuple[Record, ...], str | None]:
        """Return the call's records, and the reason if it has to run on the host."""
        if planned.aliased:
            return (), None
        fixed: tuple[Record, ...] = (*planned.op.guards(args), *planned.op.bounds(args))
        try:
            return (*fixed, *planned.op.lower(args)), None
        except UnsupportedError as error:
            return fixed, str(error)

    def propagate_resize(self) -> None:
        """Run the hooks of dirty values until no value is dirty."""
        pending = self._hooked(self._live.take_dirty()) | dict.fromkeys(self.unsettled, True)
        for _ in range(len(self.calls) + 1):
            pending = self._run_pass(pending)
            if not pending:
                return
        names = sorted({str(self.calls[index].call) for index in pending})
        raise ResizeError(f"shapes do not settle: {', '.join(names)} keep changing each other")

    def _hooked(self, value_ids: Iterable[int]) -> Pending:
        """Return the calls that read these values, and whether each must be lowered in any case."""
        found: Pending = {}
        for value_id in value_ids:
            for index in self.readers_of(value_id):
                guard = self.calls[index].guard
                must = guard is None or not guard.covers(value_id)
                found[index] = must or found.get(index, False)
        return found

    def _run_pass(self, pending: Pending) -> Pending:
        """Fire hooks in graph order; return hooks of values that changed after their readers."""
        queue, queued, behind = sorted(pending), dict(pending), Pending()
        while queue:
            index = heapq.heappop(queue)
            guard = self.calls[index].guard
            if not queued[index] and guard is not None and guard.holds(self._live.symint):
                continue
            self.hooks_fired += 1
            self._lower(self.calls[index])
            self.unsettled.discard(index)
            for hooked, must in self._hooked(self._live.take_dirty()).items():
                late = hooked <= index
                known = behind if late else queued
                if not late and hooked not in known:
                    heapq.heappush(queue, hooked)
                known[hooked] = must or known.get(hooked, False)
        return behind

    def items(self) -> Iterator[tuple[PlannedCall, Dispatch | None]]:
        """Yield calls with their dispatches in order; None stands for a call on the host."""
        found: list[tuple[PlannedCall, Dispatch | None]] = []
        for planned in self.calls:
            if planned.host is not None:
                found.append((planned, None))
            found += [(planned, r) for r in planned.records if isinstance(r, Dispatch)]
        yield from self._merger.merged(found, self._target)

    def work(self) -> tuple[Dispatch | PlannedCall, ...]:
        """Return dispatches and host calls, in order: equal work means equal commands."""
        return tuple(planned if record is None else record for planned, record in self.items())

    def reads(self, planned: PlannedCall) -> list[int]:
        """Return the tensors that a call reads."""
        return list(Dataflow.of(self._graph).reads(planned.call))

    def writes(self, planned: PlannedCall) -> list[int]:
        """Return the tensors that a call writes: its outputs, and the tensors changed in place."""
        return list(Dataflow.of(self._graph).writes(planned.call))

    def dispatches(self) -> tuple[Dispatch, ...]:
        """Return all dispatches at the live shapes, in order."""
        return tuple(item for item in self.work() if isinstance(item, Dispatch))

    def symint_bounds(self) -> tuple[SymIntBound, ...]:
        """Return the tightest lower and upper bound of each live SymInt."""
        tightest: dict[tuple[int, str], SymIntBound] = {}
        for planned in self.calls:
            for record in planned.records:
                if isinstance(record, SymIntBound):
                    for end, tighter in (("low", record.low), ("high", -record.high)):
                        key = (record.value_id, end)
                        old = tightest.get(key)
                        if old is None or tighter > (old.low if end == "low" else -old.high):
                            tightest[key] = record
        return tuple(dict.fromkeys(tightest.values()))

    def state(self) -> PlannerState:
        calls = tuple((planned.records, planned.host) for planned in self.calls)
        return PlannerState(self._live.snapshot(), calls)

    def restore(self, state: PlannerState) -> None:
        """Switch to a saved state."""
        self._live.restore(state.live)
        for planned, (records, host) in zip(self.calls, state.calls, strict=True):
            self._set(planned, records, host)

    def _set(self, planned: PlannedCall, records: tuple[Record, ...], host: str | None) -> None:
        old = (planned.records, planned.host)
        self._undo.append(lambda: planned.set(*old))
        planned.set(records, host)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: changes made inside are rolled back if anything is raised.

        `changed` says whether records or dims changed since its start.
        """
        self._live.begin()
        unsettled = frozenset(self.unsettled)
        self._undo, self.changed = [], False
        try:
            yield
        except BaseException:
            self._live.rollback()
            for undo in reversed(self._undo):
                undo()
            self.unsettled = set(unsettled)
            raise
        finally:
            self._undo = []
