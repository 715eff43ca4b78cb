"""Joins consecutive delegates to a single graph: one plan, one submission, memory in common.

Exporters cut a method where the partitioner does not take an operator. If the calls between two
delegates are offloaded (see `offload.py`), or can come before or after both (see `schedule.py`),
the host has no work in between. A value that an earlier delegate gives and a later delegate takes
is then a single value of the graph, and an output only if another call needs it as well.

Delegates are not joined if the method calls them in several places, if they write to their own
inputs, or if they have a value in different sizes, or in types that only the host can convert.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from webpte.engine.format.program import (
    Allocation,
    DelegateCall,
    FreeCall,
    Instruction,
    JumpFalseCall,
)
from webpte.engine.format.vulkan import IntListValue, SymIntValue, ValueListValue
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.graph.graph import PREPACK, Call, Graph, Tensor, Value
from webpte.engine.load.offload_call import constant_of, lowers
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.schedule import InstructionOrder, rewrite_blocks, uses_of
from webpte.engine.load.state import State
from webpte.engine.load.values import place_of, with_sources
from webpte.engine.load.writes import Writes
from webpte.engine.ops.move.symint import SELECT_AS_SYMINT
from webpte.engine.plan.planner import host_sets_symints
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import check_arity, constant_transfers
from webpte.engine.shapes import numel
from webpte.errors import WebpteError

VIEW, COPY = "aten.view_copy.default", "aten.alias_copy.default"
CAST = "aten._to_copy.default"


def stitch(method: MethodContents, state: State, device: DeviceInfo) -> MethodContents:
    """Join each run of delegates that can be a single graph."""
    stitcher = _Stitcher(method, state, device)
    chains = tuple(rewrite_blocks(chain, stitcher.rewrite) for chain in method.plan.chains)
    return stitcher.result(chains)


class _Stitcher:
    """Finds the runs of delegates in a method, and collects the joined delegates."""

    def __init__(self, method: MethodContents, state: State, device: DeviceInfo) -> None:
        self._method = method
        self._state = state
        self._device = device
        self._writes = Writes(method)
        self._instructions = InstructionOrder(method)
        instructions = method.plan.instructions
        calls = [i for i in instructions if isinstance(i, DelegateCall)]
        self._calls = Counter(call.delegate_index for call in calls)
        self._readers = Counter(r for i in instructions for r in uses_of(method, i).reads)
        self._loops = any(isinstance(i, JumpFalseCall) for i in instructions)
        # A delegate that is never called is built all the same, so that its errors are raised.
        self._graphs = {i: g for i, g in enumerate(method.graphs) if not self._calls[i]}
        self._names = {i: method.steps(i) for i in self._graphs}

    def result(self, chains: tuple[tuple[Instruction, ...], ...]) -> MethodContents:
        """Return the method with delegates renumbered, in the order in which they were added."""
        numbers = {old: new for new, old in enumerate(self._graphs)}
        renumbered = tuple(
            tuple(
                replace(i, delegate_index=numbers[i.delegate_index])
                if isinstance(i, DelegateCall)
                else i
                for i in chain
            )
            for chain in chains
        )
        return replace(
            self._method,
            plan=replace(self._method.plan, chains=renumbered),
            graphs=tuple(self._graphs.values()),
            offloaded={},
            stitched={numbers[old]: names for old, names in self._names.items()},
        )

    def rewrite(self, block: Sequence[Instruction]) -> Iterator[Instruction]:
        """Join the runs of delegates in a block; values inside of a run are freed after it."""
        if self._is_plain(block):
            yield from (self._kept(i) if isinstance(i, DelegateCall) else i for i in block)
            return
        run = self._new_run()
        freed: list[FreeCall] = []
        for instruction in self._instructions.order(block):
            if run.calls and isinstance(instruction, FreeCall):
                freed.append(instruction)
                continue
            call = instruction if isinstance(instruction, DelegateCall) else None
            joins = call is not None and self._can_join(call)
            if call is None or not joins or not self._may_follow(run, freed, call):
                yield from self._finished(run, freed)
                run, freed = self._new_run(), []
            if call is not None and joins:
                run.add(call, self._graph_of(call), self._name(call))
            else:
                yield instruction if call is None else self._kept(call)
        yield from self._finished(run, freed)

    def _is_plain(self, block: Sequence[Instruction]) -> bool:
        """Return whether there is nothing to join: most methods are a single large delegate."""
        calls = [i for i in block if isinstance(i, DelegateCall)]
        return len(calls) < 2 and not any(self._state.keys() & call.args for call in calls)

    def _new_run(self) -> _DelegateRun:
        return _DelegateRun(self._method, self._state, self._writes, self._device.has_f16)

    def _kept(self, call: DelegateCall) -> DelegateCall:
        self._graphs[call.delegate_index] = self._graph_of(call)
        self._names[call.delegate_index] = (self._name(call),)
        return call

    def _graph_of(self, call: DelegateCall) -> Graph:
        graph = self._method.graphs[call.delegate_index]
        assert graph is not None, "foreign delegates are refused at load"
        return graph

    def _name(self, call: DelegateCall) -> str:
        (name,) = self._method.steps(call.delegate_index)
        return name

    def _may_follow(
        self, run: _DelegateRun, freed: Collection[FreeCall], call: DelegateCall
    ) -> bool:
        graph = self._graph_of(call)
        again = {f.value_index for f in freed}.intersection(call.args[len(graph.inputs) :])
        return not again and run.fits(call, graph)

    def _can_join(self, call: DelegateCall) -> bool:
        """Return whether a delegate is valid, called once, and does not write to its inputs."""
        graph = self._graph_of(call)
        if self._calls[call.delegate_index] > 1:
            return False
        try:
            check_arity(graph)
            constant_transfers(graph)
        except WebpteError:
            return False  # the error is raised when the delegate is built
        return Dataflow.of(graph).volatile.isdisjoint(graph.inputs)

    def _finished(self, run: _DelegateRun, freed: Iterable[FreeCall]) -> Iterator[Instruction]:
        """Return the instructions for a run: a joined call, or the run's calls unchanged."""
        joined = self._joined(run) if len(run.calls) > 1 or run.bound else None
        if joined is not None:
            number = len(self._method.graphs) + len(self._graphs)
            self._graphs[number] = joined.graph
            self._names[number] = tuple(run.names)
            yield DelegateCall(number, (*joined.inputs, *joined.outputs))
        else:
            yield from map(self._kept, run.calls)
        yield from freed

    def _joined(self, run: _DelegateRun) -> _Joined | None:
        joined = run.join(self._needed(run))
        dynamic = any(isinstance(value, SymIntValue) for value in joined.graph.values)
        # With SymInts, live sizes before the first call can be smaller than the sizes in the file.
        # For others a try takes time and decides nothing: fixed sizes are in the file, and where
        # the host sets SymInts, calls that cannot be lowered yet are lowered with that call.
        doubtful = dynamic and not host_sets_symints(joined.graph)
        return None if doubtful and not _lowers(joined.graph, self._device) else joined

    def _needed(self, run: _DelegateRun) -> set[int]:
        """Return the values of a run that something outside reads, or its next turn in a loop."""
        inside = Counter(r for call in run.calls for r in uses_of(self._method, call).reads)
        outside = {index for index, count in self._readers.items() if count > inside[index]}
        plan = self._method.plan
        kept = {index for index, cell in self._state.items() if cell.mutable}
        read = {*outside, *plan.outputs, *kept, *(run.given if self._loops else ())}
        return with_sources(plan, read, self._writes)


def _lowers(graph: Graph, device: DeviceInfo) -> bool:
    try:
        lowers(graph, device)
    except WebpteError:
        return False
    return True


@dataclass(frozen=True)
class _Joined:
    """Several delegates joined to a graph. `inputs` and `outputs` are values of the method."""

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass
class _DelegateRun:
    """Consecutive delegates on their way to a joined graph."""

    method: MethodContents
    state: State
    writes: Writes
    has_f16: bool  # whether the device's shaders have f16
    calls: list[DelegateCall] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    # values of the method that the run takes from outside
    given: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan = self.method.plan
        self.bound: dict[tuple[object, ...], int] = {}  # inputs that have become constants
        self._values: list[Value] = []
        self._ops: list[Call] = []
        self._inputs: dict[tuple[object, ...], int] = {}
        self._made: dict[int, int] = {}  # value of the method to value of the graph, latest last
        # place in memory to the value of the method last written there
        self._latest: dict[Allocation, int] = {}
        self._constants: dict[tuple[object, ...], int] = {}

    def fits(self, call: DelegateCall, graph: Graph) -> bool:
        """Return whether the inputs of a delegate match the outputs of the delegates before it."""
        on_host = read_on_host(graph)
        return all(
            self._agree(made, graph.values[value_id], self._is_view(index))
            and (value_id not in on_host or made in self._inputs.values())
            for index, value_id in zip(call.args, graph.inputs, strict=False)
            if (made := self._source(index)) is not None
        )

    def _agree(self, made: int, taken: Value, viewed: bool) -> bool:
        given = self._values[made]
        if not isinstance(given, Tensor) or not isinstance(taken, Tensor):
            return isinstance(given, SymIntValue) and isinstance(taken, SymIntValue)
        if viewed:
            return numel(given.dims) == numel(taken.dims) and given.dtype == taken.dtype
        return given.dims == taken.dims and self._conversion(given, taken) is not None

    def _conversion(self, given: Tensor, taken: Tensor) -> str | None:
        """Return the op that converts a tensor as the host would; "" if no conversion is needed."""
        if given.dtype == taken.dtype:
            return ""
        if taken.dtype.holds_stored(given.dtype):
            return CAST
        if (given.dtype.name, taken.dtype.name) != ("float32", "float16"):
            return None
        return CAST if self.has_f16 else COPY  # without f16 both are stored as float32

    def _is_view(self, index: int) -> bool:
        return index not in self._made

    def _source(self, index: int) -> int | None:
        """Return the graph value that a value of the method is, or is a view of."""
        if index in self._made or index in self.writes:
            return self._made.get(index)
        place = place_of(self.plan, index)
        return None if place is None else self._made.get(self._latest.get(place, -1))

    def add(self, call: DelegateCall, graph: Graph, name: str) -> None:
        """Append a graph."""
        self.calls.append(call)
        self.names.append(name)
        shift = len(self._values)
        self._values += [_shifted(value, shift) for value in graph.values]
        known = {}
        on_host = read_on_host(graph)
        for index, value_id in zip(call.args, graph.inputs, strict=False):
            bound = None if value_id in on_host else self._bound(index, value_id + shift)
            known[value_id] = self._taken(index, value_id + shift) if bound is None else bound
        shared = self._shared_constants(graph, shift)
        known |= shared

        def number(value_id: int) -> int:
            return known.get(value_id, value_id + shift)

        for value_id, value in enumerate(graph.values):
            if isinstance(value, ValueListValue):
                items = tuple(number(item) for item in value.items)
                self._values[value_id + shift] = ValueListValue(items)
        for op in graph.calls:
            if op.name == PREPACK and op.args[-1] in shared:
                continue
            place = None if op.kernel else f"{name}: {op}"
            args = tuple(number(value_id) for value_id in op.args)
            self._ops.append(replace(op, index=len(self._ops), args=args, place=place))
        for index, value_id in zip(call.args[len(graph.inputs) :], graph.outputs, strict=True):
            self._made.pop(index, None)  # moves the value to the end: it is the latest again
            self._made[index] = number(value_id)
            if (at := place_of(self.plan, index)) is not None:
                self._latest[at] = index

    def _bound(self, index: int, value_id: int) -> int | None:
        """Bind an input that never changes as a graph constant; returns its value id, or None."""
        value = self._values[value_id]
        if not isinstance(value, Tensor) or index not in self.state:
            return None
        key, cell = (index, value.dtype, value.dims), self.state[index]
        if key not in self.bound:
            constant = constant_of(self.plan, self.state, self.writes, index)
            alike = (cell.dtype.name, cell.array.shape) == (value.dtype.name, value.dims)
            if constant is None or not alike or not cell.array.size:
                return None
            self._values[value_id] = replace(value, constant=constant, mem_obj_id=None)
            self.bound[key] = value_id
        return self.bound[key]

    def _taken(self, index: int, value_id: int) -> int:
        """Return the graph value of an input; a new input gets `value_id`."""
        made = self._source(index)
        if made is not None:
            become = self._viewed if self._is_view(index) else self._cast
            return become(made, value_id)
        value = self._values[value_id]
        key: tuple[object, ...] = (index,)
        if isinstance(value, Tensor):
            # Integers of several widths are stored alike, so they are the same input.
            dtype = value.dtype
            key = (index, dtype.name if dtype.is_float else dtype.stored, value.dims)
        if key not in self._inputs:
            self._inputs[key] = value_id
            self.given.append(index)
        return self._inputs[key]

    def _cast(self, source: int, value_id: int) -> int:
        given, taken = self._values[source], self._values[value_id]
        if not isinstance(given, Tensor) or not isinstance(taken, Tensor):
            return source
        if not (op := self._conversion(given, taken)):
            return source
        place = f"{self.names[-1]}: a change of type"
        self._ops.append(Call(len(self._ops), op, (source, value_id), None, place))
        return value_id

    def _viewed(self, source: int, value_id: int) -> int:
        """Append a view that the exporter has left out."""
        value = self._values[value_id]
        assert isinstance(value, Tensor)
        self._values.append(IntListValue(value.dims))
        args = (source, len(self._values) - 1, value_id)
        self._ops.append(Call(len(self._ops), VIEW, args, None, f"{self.names[-1]}: a view"))
        return value_id

    def _shared_constants(self, graph: Graph, shift: int) -> dict[int, int]:
        """Use an earlier delegate's equal constants: a graph has each constant once."""
        shared: dict[int, int] = {}
        new: dict[tuple[object, ...], int] = {}
        for value_id, key in _constants(graph):
            if key in self._constants:
                shared[value_id] = self._constants[key]
            else:
                new.setdefault(key, value_id + shift)
        self._constants |= new
        return shared

    def join(self, needed: Collection[int]) -> _Joined:
        outputs = [index for index in self._made if index in needed] or list(self._made)[-1:]
        places = [p for index in outputs if (p := place_of(self.plan, index)) is not None]
        if len(set(places)) == len(places):  # else the latest value at a place must come last
            outputs = _ordered(outputs, self.plan.outputs)
        by_index = list(zip(self.given, self._inputs.values(), strict=True))
        order = {index: at for at, index in enumerate(_ordered(self.given, self.plan.inputs))}
        by_index.sort(key=lambda pair: order[pair[0]])
        graph = Graph(
            tuple(self._values),
            tuple(self._ops),
            tuple(value_id for _, value_id in by_index),
            tuple(self._made[index] for index in outputs),
        )
        return _Joined(graph, tuple(index for index, _ in by_index), tuple(outputs))


def _ordered(indices: Sequence[int], first: Sequence[int]) -> list[int]:
    """Sort values of a method by their places in `first`; other values come last."""
    places = {index: at for at, index in reversed(list(enumerate(first)))}
    return sorted(indices, key=lambda index: places.get(index, len(first)))


def _shifted(value: Value, shift: int) -> Value:
    if not isinstance(value, Tensor):
        return value
    group = value.mem_obj_id
    return replace(value, id=value.id + shift, mem_obj_id=None if group is None else group + shift)


def read_on_host(graph: Graph) -> set[int]:
    """Return the tensors of which the host reads elements; only inputs of the graph can be such."""
    return {call.args[0] for call in graph.calls if call.name == SELECT_AS_SYMINT}


def _constants(graph: Graph) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield constant values with the key under which equal constants are merged."""
    written = Dataflow.of(graph).volatile | set(graph.inputs)
    for transfer in constant_transfers(graph):
        target = transfer.target
        if target.id not in written:
            region = transfer.constant.region.head(target.file_bytes)
            yield target.id, (region, target.dtype, target.dims)
