"""From calls to dispatches, again and again as shapes change.

Every op is the resize hook of the values it reads. `propagate_resize` runs the hooks of what
became dirty, in graph order: each recomputes its output's live dims and lowers itself anew. The
graph is ordered, so one pass settles it; a graph that feeds a value back to an earlier op gets as
many passes as it has ops, and then an error. A static graph never fires a hook.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from webpte.errors import (
    GraphError,
    PrepackArityError,
    PrepackBufferError,
    PrepackByteSizeError,
    PrepackElementSizeError,
    PrepackShapeError,
    PrepackSourceError,
    ResizeError,
    UnsupportedError,
    UnsupportedOpError,
    WebpteError,
)
from webpte.format.vulkan import SymIntValue
from webpte.graph import PREPACK, Call, Constant, Graph, Tensor
from webpte.live import LiveState, Snapshot
from webpte.ops import OpDef, lookup
from webpte.ops.args import Args
from webpte.ops.records import Dispatch, Record, SymIntBound
from webpte.ops.symint import SELECT_AS_SYMINT
from webpte.shapes import normalize_dim, normalize_index
from webpte.storage import StoragePlan


def unsupported_ops(graph: Graph) -> dict[str, int]:
    """Operators of the graph that have no definition, with their counts."""
    return dict(
        Counter(
            call.name for call in graph.calls if call.name != PREPACK and lookup(call.name) is None
        )
    )


def resolve_ops(graph: Graph) -> dict[int, OpDef]:
    """Call index to definition; prepack is not an op here."""
    if missing := unsupported_ops(graph):
        raise UnsupportedOpError("a delegate", missing)
    return {
        call.index: op
        for call in graph.calls
        if call.name != PREPACK and (op := lookup(call.name)) is not None
    }


def check_arity(graph: Graph) -> None:
    """Every call must give as many arguments as its op takes; everything else relies on it."""
    live = LiveState(graph)
    for index, op in resolve_ops(graph).items():
        op.bind(graph.calls[index], graph, live)


@contextmanager
def naming(call: Call) -> Iterator[None]:
    """Errors in here name the call, and one that is not ours becomes a GraphError.

    Shape functions, lowerings and references check what they rely on in valid files. What a broken
    file makes Python or NumPy raise in them says as much about the graph as our own errors do.
    """
    try:
        yield
    except WebpteError as error:
        if str(call) in str(error):
            raise
        raise type(error)(f"{call}: {error}") from error
    except Exception as error:
        raise GraphError(f"{call}: {type(error).__name__}: {error}") from error


def resize_outputs(op: OpDef, args: Args, live: LiveState) -> bool:
    """Give the outputs of a call their live dims; returns whether any changed."""
    shapes = [tuple(dims) for dims in op.shape(args)]
    outs = args.outs if shapes else []
    if len(shapes) != len(outs):
        raise GraphError(f"gives {len(shapes)} tensors, but the file has {len(outs)} for them")
    for out, dims in zip(outs, shapes, strict=True):
        live.set_cur_dims(out.id, dims)
    return any(out.dims != dims for out, dims in zip(outs, shapes, strict=True))


@dataclass(frozen=True)
class ConstantTransfer:
    """Bytes that go from the file into the buffer of one tensor, once, before the first call."""

    constant: Constant
    target: Tensor


def constant_transfers(graph: Graph) -> list[ConstantTransfer]:
    """Everything the prepack phase moves.

    A constant that ops use directly goes into its own buffer. One used through prepack goes
    straight into the buffer of the prepack's output and never has one of its own.
    """
    transfers = []
    used: set[int] = set(graph.outputs)
    for call in graph.calls:
        if call.name == PREPACK:
            source, target = check_prepack(graph, call)
            transfers.append(ConstantTransfer(source, target))
        else:
            used.update(graph.expand(call.args))
    transfers += [
        ConstantTransfer(tensor.constant, tensor)
        for tensor in graph.tensors()
        if tensor.constant is not None and tensor.id in used
    ]
    return transfers


def check_prepack(graph: Graph, call: Call) -> tuple[Constant, Tensor]:
    """The source and the target of a prepack node, or the error for what is wrong with it."""
    if len(call.args) != 2:
        raise PrepackArityError(f"{call}: takes a source and an output, not {len(call.args)} ids")
    source, out = graph.tensor(call.args[0]), graph.tensor(call.args[1])
    where = f"{call}: {_describe(source)} into {_describe(out)}"
    if source.constant is None:
        raise PrepackSourceError(f"{where}: the source is not a constant")
    if source.dtype.itemsize != out.dtype.itemsize:
        raise PrepackElementSizeError(f"{where}: elements of different sizes")
    if source.file_bytes != out.file_bytes:
        raise PrepackByteSizeError(f"{where}: {source.file_bytes} bytes into {out.file_bytes}")
    if source.dims != out.dims:
        raise PrepackShapeError(f"{where}: different dims")
    packed = sum(other.args[-1:] == (out.id,) for other in graph.calls if other.name == PREPACK)
    shared = out.constant is not None or out.mem_obj_id is not None or out.id in graph.inputs
    if shared or packed > 1:
        raise PrepackBufferError(f"{where}: the output needs a buffer of its own")
    return source.constant, out


def _describe(tensor: Tensor) -> str:
    return f"value {tensor.id} ({tensor.dtype.name} {list(tensor.dims)})"


def check_defined(graph: Graph) -> None:
    """Every tensor that is read must have been written: no uninitialised memory, ever."""
    defined = set(graph.inputs) | {t.id for t in graph.tensors() if t.constant is not None}
    for call in graph.calls:
        for value_id in graph.expand(call.args[:-1]):
            if isinstance(graph.value(value_id), Tensor) and value_id not in defined:
                raise GraphError(f"{call}: reads tensor value {value_id} before anything wrote it")
        outputs = set(graph.expand(call.args[-1:]))
        check_distinct(graph, call, outputs)
        defined.update(outputs)
    for value_id in graph.outputs:
        if value_id not in defined:
            raise GraphError(f"output value {value_id} is never written")
    graph.tensor_outputs()


def check_distinct(graph: Graph, call: Call, outputs: set[int]) -> None:
    """No op may write over a tensor that it reads, unless it is made to change it in place."""
    op = lookup(call.name)
    mutated = {call.args[op.signature.positions[name]] for name in op.mutates} if op else set()
    for value_id in graph.expand(call.args[:-1]):
        if value_id in outputs - mutated and isinstance(graph.value(value_id), Tensor):
            raise GraphError(f"{call}: writes to tensor value {value_id}, which it reads")


@dataclass(frozen=True)
class SymIntSource:
    """A SymInt whose value is an element of a host input: `index` along `dim`, 0 elsewhere."""

    symint: int
    input: int
    dim: int
    index: int


def symint_sources(graph: Graph, ops: dict[int, OpDef]) -> tuple[SymIntSource, ...]:
    """Everything that `select_as_symint` reads. Only the host knows inputs, so only those."""
    sources = []
    live = LiveState(graph)
    for index, op in ops.items():
        call = graph.calls[index]
        if op.name != SELECT_AS_SYMINT or not graph.is_symint(call.args[-1]):
            continue
        args = op.bind(call, graph, live)
        tensor = args.tensor("self")
        if tensor.id not in graph.inputs:
            raise UnsupportedError(
                f"{call}: reads tensor value {tensor.id}, which is not an input; "
                "only inputs can be read on the host"
            )
        dim = normalize_dim(args.integer("dim"), tensor.rank)
        sources.append(SymIntSource(call.args[-1], tensor.id, dim, args.integer("index")))
    return tuple(sources)


def read_symint(source: SymIntSource, value: np.ndarray | int) -> int:
    """The element that a SymInt stands for."""
    array = np.asarray(value)
    at = [
        normalize_index(source.index if dim == source.dim else 0, size)
        for dim, size in enumerate(array.shape)
    ]
    return int(array[tuple(at)])


def check_bounds(bounds: Iterable[SymIntBound], live: LiveState) -> None:
    """Raise for a live SymInt outside a range that some op relies on."""
    for bound in bounds:
        value = live.symint(bound.value_id)
        if not bound.low <= value <= bound.high:
            raise ResizeError(f"{bound.why}: {value} is not in {bound.low} to {bound.high}")


@dataclass(eq=False)
class Step:
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


@dataclass(frozen=True)
class PlannerState:
    """What a shape signature needs to be switched back to without lowering anything."""

    live: Snapshot
    steps: tuple[tuple[tuple[Record, ...], str | None], ...]


class Planner:
    """The steps of one graph and the hooks between them."""

    def __init__(
        self, graph: Graph, live: LiveState, ops: dict[int, OpDef], storage: StoragePlan
    ) -> None:
        self._graph = graph
        self._live = live
        self.steps = [
            Step(graph.calls[index], op, index in storage.aliased_calls)
            for index, op in sorted(ops.items())
        ]
        self._hooks = self._find_hooks()
        self.hooks_fired = 0
        self.lowerings = 0
        self.changed = False  # whether records or dims did, since `begin`
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

    def _outs(self, step: Step) -> list[Tensor]:
        """The output tensors at their live dims."""
        tensors = (self._graph.value(i) for i in self._graph.expand(step.call.args[-1:]))
        return [
            Tensor(t.id, t.dtype, self._live.cur_dims(t.id), t.constant, t.mem_obj_id)
            for t in tensors
            if isinstance(t, Tensor)
        ]

    def _lower(self, step: Step) -> None:
        with naming(step.call):
            args = step.op.bind(step.call, self._graph, self._live)
            self.changed |= resize_outputs(step.op, args, self._live)
            if step.op.scalar is not None:
                args.set_symint_out(step.op.scalar(args))
            records, host = self._lowered(step, args)
        if (records, host) != (step.records, step.host):
            self._set(step, records, host)
            self.changed = True
        self.lowerings += step.op.scalar is None

    def _lowered(self, step: Step, args: Args) -> tuple[tuple[Record, ...], str | None]:
        """What the step lowers to, or why it has to run on the host."""
        if step.aliased:
            return (), None
        bounds = tuple(step.op.bounds(args))
        try:
            return (*bounds, *step.op.lower(args)), None
        except UnsupportedError as error:
            return bounds, str(error)

    def propagate_resize(self) -> None:
        """Run the hooks of everything dirty until nothing is."""
        pending = self._hooked(self._live.take_dirty()) | self.unsettled
        for _ in range(len(self.steps) + 1):
            if not pending:
                return
            pending = self._run_pass(pending)
        names = sorted({str(self.steps[index].call) for index in pending})
        raise ResizeError(f"shapes do not settle: {', '.join(names)} keep changing each other")

    def _hooked(self, value_ids: Iterable[int]) -> set[int]:
        return {index for value_id in value_ids for index in self._hooks.get(value_id, ())}

    def _run_pass(self, pending: set[int]) -> set[int]:
        """Fire hooks in graph order; returns the hooks of values changed behind their readers."""
        queue, queued, behind = sorted(pending), set(pending), set()
        while queue:
            index = heapq.heappop(queue)
            self.hooks_fired += 1
            self._lower(self.steps[index])
            self.unsettled.discard(index)
            for hooked in self._hooked(self._live.take_dirty()):
                if hooked <= index:
                    behind.add(hooked)
                elif hooked not in queued:
                    queued.add(hooked)
                    heapq.heappush(queue, hooked)
        return behind

    def work(self) -> tuple[Dispatch | Step, ...]:
        """Everything to do at the live shapes, in order; a step stands for itself on the host."""
        items: list[Dispatch | Step] = []
        for step in self.steps:
            if step.host is not None:
                items.append(step)
            items += [record for record in step.records if isinstance(record, Dispatch)]
        return tuple(items)

    def reads(self, step: Step) -> list[int]:
        """The tensors that a step reads."""
        ids = dict.fromkeys(self._graph.expand(step.call.args[:-1]))
        return [i for i in ids if isinstance(self._graph.value(i), Tensor)]

    def writes(self, step: Step) -> list[int]:
        """The tensors that a step writes: its outputs, and what it changes in place."""
        positions = step.op.signature.positions
        mutated = [step.call.args[positions[name]] for name in step.op.mutates]
        ids = dict.fromkeys([*self._graph.expand(step.call.args[-1:]), *mutated])
        return [i for i in ids if isinstance(self._graph.value(i), Tensor)]

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

    def _set(self, step: Step, records: tuple[Record, ...], host: str | None) -> None:
        old = (step.records, step.host)
        self._undo.append(lambda: step.set(*old))
        step.set(records, host)

    def begin(self) -> None:
        """From here on, `rollback` takes back what changes."""
        self._live.begin()
        self._undo, self.changed = [], False

    def rollback(self) -> None:
        """Go back to where `begin` was called."""
        self._live.rollback()
        for undo in reversed(self._undo):
            undo()
        self._undo = []
