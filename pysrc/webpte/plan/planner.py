"""From calls to dispatches, again and again as shapes change.

Every op is the resize hook of the values it reads. `propagate_resize` runs the hooks of what
became dirty, in graph order: each recomputes its output's live dims and lowers itself anew. The
graph is ordered, so one pass settles it; a graph that feeds a value back to an earlier op gets as
many passes as it has ops, and then an error. A static graph never fires a hook.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from webpte.errors import GraphError, ResizeError, UnsupportedError, WebpteError, located
from webpte.format.vulkan import SymIntValue
from webpte.graph.graph import Call, Graph, Tensor
from webpte.graph.live_state import LiveState, Snapshot
from webpte.ops import OpDef
from webpte.ops.core.args import Args
from webpte.ops.core.records import Dispatch, Record, RelowerGuard, SymIntBound
from webpte.ops.core.target import GPU, Target, Tunable
from webpte.ops.move.symint import SELECT_AS_SYMINT
from webpte.plan.memory_plan import StoragePlan
from webpte.rewrite.dataflow import Dataflow


def located_at(call: Call) -> AbstractContextManager[None]:
    """Name the call in errors that are raised inside; one that is not ours becomes a GraphError.

    Shape functions, lowerings and references check what they rely on in valid files. What a broken
    file makes Python or NumPy raise in them says as much about the graph as our own errors do.
    """

    def locate(error: Exception) -> str:
        if not isinstance(error, WebpteError):
            return f"{call}: {type(error).__name__}: {error}"
        named = any(str(each) in str(error) for each in (call, *call.parts))
        return str(error) if named else f"{call}: {error}"

    return located(locate, GraphError)


def resize_outputs(op: OpDef, args: Args, live: LiveState) -> bool:
    """Give the outputs of a call their live dims; returns whether any changed."""
    shapes = [tuple(dims) for dims in op.shape(args)]
    outs = args.outs if shapes else []
    if len(shapes) != len(outs):
        raise GraphError(f"gives {len(shapes)} tensors, but the file has {len(outs)} for them")
    for out, dims in zip(outs, shapes, strict=True):
        live.set_cur_dims(out.id, dims)
    return any(out.dims != dims for out, dims in zip(outs, shapes, strict=True))


def check_bounds(bounds: Iterable[SymIntBound], live: LiveState) -> None:
    """Raise for a live SymInt outside a range that some op relies on."""
    for bound in bounds:
        value = live.symint(bound.value_id)
        if not bound.low <= value <= bound.high:
            raise ResizeError(f"{bound.why}: {value} is not in {bound.low} to {bound.high}")


@dataclass(eq=False)
class PlannedCall:
    """One call, with what it lowered to at the live shapes.

    `host` is why it runs on the host instead: no kernel takes its arguments. None: it does not.
    """

    call: Call
    op: OpDef
    aliased: bool
    records: tuple[Record, ...] = ()
    host: str | None = None

    def set(self, records: tuple[Record, ...], host: str | None) -> None:
        self.records, self.host = records, host

    @property
    def steady(self) -> RelowerGuard | None:
        """It comes first, if there is one."""
        first = self.records[0] if self.records else None
        return first if isinstance(first, RelowerGuard) else None


# Steps to look at, and whether each must be lowered, or only if it is not `RelowerGuard`.
Pending = dict[int, bool]


@dataclass(frozen=True)
class PlannerState:
    """What a shape signature needs to be switched back to without lowering anything."""

    live: Snapshot
    steps: tuple[tuple[tuple[Record, ...], str | None], ...]


class Planner:
    """The steps of one graph and the hooks between them."""

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        ops: dict[int, OpDef],
        storage: StoragePlan,
        target: Target = GPU,
    ) -> None:
        self._graph = graph
        self._target = target
        self._live = live
        self.steps = [
            PlannedCall(graph.calls[index], op, index in storage.aliased_calls)
            for index, op in sorted(ops.items())
        ]
        self._hooks = self._find_hooks()
        self.hooks_fired = 0
        self.lowerings = 0
        self.changed = False  # whether records or dims did, in the last transaction
        self.unsettled: set[int] = set()  # steps that could not be lowered yet
        self._undo: list[Callable[[], None]] = []

    def _find_hooks(self) -> dict[int, list[int]]:
        """Value id to the steps that must run again when it changes."""
        hooks: dict[int, list[int]] = {}
        for index, step in enumerate(self.steps):
            args = step.op.bind(step.call, self._graph, self._live)
            ids = [i for parameter, i in args.given if parameter.kind not in ("live", "any")]
            for value_id in set(self._graph.expand(tuple(ids))):
                if isinstance(self._graph.value(value_id), Tensor | SymIntValue):
                    hooks.setdefault(value_id, []).append(index)
        return hooks

    def lower_all(self) -> None:
        """Lower every step once, at the shapes that the file declares.

        SymInts that the host sets are not known yet. A step that their first values do not suit
        is lowered with the first call.
        """
        fixed = not any(isinstance(value, SymIntValue) for value in self._graph.values)
        fed = any(call.name == SELECT_AS_SYMINT for call in self._graph.calls) or any(
            isinstance(self._graph.value(i), SymIntValue) for i in self._graph.inputs
        )
        for index, step in enumerate(self.steps):
            declared = {out.id: out.dims for out in self._outs(step)}
            try:
                self._lower(step)
            except WebpteError:
                if not fed:
                    raise
                self.unsettled.add(index)
            for out in self._outs(step):
                if fixed and out.dims != declared[out.id]:
                    raise GraphError(
                        f"{step.call}: gives {list(out.dims)}, but the file declares "
                        f"{list(declared[out.id])} for value {out.id}"
                    )
        self._live.take_dirty()

    def retarget(self, target: Target) -> dict[int, tuple[Tunable, ...]]:
        """Lower everything anew, at the live shapes; what each call asked `target.choice`.

        If that fails, all is as before.
        """
        old, asked = self._target, list[Tunable]()
        found = {}
        try:
            with self.transaction():
                self._target = replace(target, asked=asked)
                for index, step in enumerate(self.steps):
                    if index not in self.unsettled:
                        self._lower(step)
                    found[step.call.index] = tuple(asked)
                    asked.clear()
                self._target = target
        except BaseException:
            self._target = old
            raise
        return {call: questions for call, questions in found.items() if questions}

    def _outs(self, step: PlannedCall) -> list[Tensor]:
        """The output tensors at their live dims."""
        tensors = (self._graph.value(i) for i in self._graph.expand(step.call.args[-1:]))
        return [
            Tensor(t.id, t.dtype, self._live.cur_dims(t.id), t.constant, t.mem_obj_id)
            for t in tensors
            if isinstance(t, Tensor)
        ]

    def _lower(self, step: PlannedCall) -> None:
        with located_at(step.call):
            args = step.op.bind(step.call, self._graph, self._live, target=self._target)
            self.changed |= resize_outputs(step.op, args, self._live)
            if step.op.scalar is not None:
                args.set_symint_out(step.op.scalar(args))
            records, host = self._lowered(step, args)
        if (records, host) != (step.records, step.host):
            self._set(step, records, host)
            self.changed = True
        self.lowerings += step.op.scalar is None

    def _lowered(self, step: PlannedCall, args: Args) -> tuple[tuple[Record, ...], str | None]:
        """What the step lowers to, or why it has to run on the host."""
        if step.aliased:
            return (), None
        fixed: tuple[Record, ...] = (*step.op.steady(args), *step.op.bounds(args))
        try:
            return (*fixed, *step.op.lower(args)), None
        except UnsupportedError as error:
            return fixed, str(error)

    def propagate_resize(self) -> None:
        """Run the hooks of everything dirty until nothing is."""
        pending = self._hooked(self._live.take_dirty()) | dict.fromkeys(self.unsettled, True)
        for _ in range(len(self.steps) + 1):
            if not pending:
                return
            pending = self._run_pass(pending)
        names = sorted({str(self.steps[index].call) for index in pending})
        raise ResizeError(f"shapes do not settle: {', '.join(names)} keep changing each other")

    def _hooked(self, value_ids: Iterable[int]) -> Pending:
        """The steps that read these values, and whether each must be lowered whatever they are."""
        found: Pending = {}
        for value_id in value_ids:
            for index in self._hooks.get(value_id, ()):
                steady = self.steps[index].steady
                must = steady is None or not steady.covers(value_id)
                found[index] = must or found.get(index, False)
        return found

    def _run_pass(self, pending: Pending) -> Pending:
        """Fire hooks in graph order; returns the hooks of values changed behind their readers."""
        queue, queued, behind = sorted(pending), dict(pending), Pending()
        while queue:
            index = heapq.heappop(queue)
            steady = self.steps[index].steady
            if not queued[index] and steady is not None and steady.holds(self._live.symint):
                continue
            self.hooks_fired += 1
            self._lower(self.steps[index])
            self.unsettled.discard(index)
            for hooked, must in self._hooked(self._live.take_dirty()).items():
                late = hooked <= index
                known = behind if late else queued
                if not late and hooked not in known:
                    heapq.heappush(queue, hooked)
                known[hooked] = must or known.get(hooked, False)
        return behind

    def items(self) -> Iterator[tuple[PlannedCall, Dispatch | None]]:
        """Everything to do at the live shapes, in order; None: the step runs on the host."""
        for step in self.steps:
            if step.host is not None:
                yield step, None
            for record in step.records:
                if isinstance(record, Dispatch):
                    yield step, record

    def work(self) -> tuple[Dispatch | PlannedCall, ...]:
        """The same without the steps of what is dispatched: equal work means equal commands."""
        return tuple(step if record is None else record for step, record in self.items())

    def reads(self, step: PlannedCall) -> list[int]:
        """The tensors that a step reads."""
        return list(Dataflow.of(self._graph).reads(step.call))

    def writes(self, step: PlannedCall) -> list[int]:
        """The tensors that a step writes: its outputs, and what it changes in place."""
        return list(Dataflow.of(self._graph).writes(step.call))

    def dispatches(self) -> tuple[Dispatch, ...]:
        """Everything to dispatch at the live shapes, in order."""
        return tuple(item for item in self.work() if isinstance(item, Dispatch))

    def symint_bounds(self) -> tuple[SymIntBound, ...]:
        """The ranges that live SymInts must keep to: the tightest of each, however many ask."""
        tightest: dict[tuple[int, str], SymIntBound] = {}
        for step in self.steps:
            for record in step.records:
                if isinstance(record, SymIntBound):
                    for end, tighter in (("low", record.low), ("high", -record.high)):
                        key = (record.value_id, end)
                        old = tightest.get(key)
                        if old is None or tighter > (old.low if end == "low" else -old.high):
                            tightest[key] = record
        return tuple(dict.fromkeys(tightest.values()))

    def state(self) -> PlannerState:
        steps = tuple((step.records, step.host) for step in self.steps)
        return PlannerState(self._live.snapshot(), steps)

    def restore(self, state: PlannerState) -> None:
        """Switch to a state that was settled."""
        self._live.restore(state.live)
        for step, (records, host) in zip(self.steps, state.steps, strict=True):
            self._set(step, records, host)

    def _set(self, step: PlannedCall, records: tuple[Record, ...], host: str | None) -> None:
        old = (step.records, step.host)
        self._undo.append(lambda: step.set(*old))
        step.set(records, host)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What changes in here stays only if nothing is raised in here.

        `changed` tells inside whether records or dims did since the start.
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
