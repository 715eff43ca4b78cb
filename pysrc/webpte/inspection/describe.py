"""A method as `Program.graph` shows it: calls inside of delegates and outside, in one list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webpte.engine.dtypes import dtype_of_program
from webpte.engine.format.frames import Frame
from webpte.engine.format.program import (
    BoolList,
    DelegateCall,
    DoubleList,
    ExecutionPlan,
    FreeCall,
    Instruction,
    IntListRef,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    TensorList,
    TensorMeta,
)
from webpte.engine.format.vulkan import (
    BoolListValue,
    DoubleListValue,
    IntListValue,
    NullValue,
    SymIntValue,
    ValueListValue,
)
from webpte.engine.graph.graph import PREPACK, Call, Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.schedule import uses_of
from webpte.engine.load.state import State
from webpte.engine.ops import OpDef
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.plan.planner import PlannedCall
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.portable import lookup_kernel
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import resolve_ops
from webpte.inspection.report.layers import group_layers
from webpte.inspection.report.method_graph import (
    KERNEL,
    Argument,
    Edge,
    GraphValue,
    MethodGraph,
    Node,
    kernel_of,
)
from webpte.inspection.report.weight_stats import StoredConstant


@dataclass(frozen=True)
class DelegateView:
    """A delegate's graph, with its planned calls by index once it is built; else `where`."""

    graph: Graph
    live: LiveState | None = None
    steps: Mapping[int, PlannedCall] | None = None
    where: str = "delegate"

    def place(self, call: Call) -> tuple[str, str | None]:
        """Return where a call runs, and the reason if it runs on the host."""
        step = None if self.steps is None else self.steps.get(call.index)
        if step is None:
            return self.where, None
        if step.aliased:
            return "alias", None
        if step.op.scalar is not None:
            return "host", "a number, which the host computes"
        return ("gpu", None) if step.host is None else ("host", step.host)

    def records(self, call: Call) -> list[Dispatch]:
        step = None if self.steps is None else self.steps.get(call.index)
        return [r for r in step.records if isinstance(r, Dispatch)] if step is not None else []


def describe(
    program: str,
    method: MethodContents,
    stage: str,
    inside: Sequence[DelegateView],
    state: State,
    places: Mapping[int, str],
    library: ShaderLibrary,
) -> MethodGraph:
    """Return the graph of a method.

    `inside` has the delegates by index, `places` the places where calls of kernels run, by the `id`
    of the call.
    """
    describer = _Describer(method, inside, state, places, library)
    for chain in method.plan.chains:
        for instruction in chain:
            describer.add(instruction)
    return describer.result(program, stage)


class _Describer:
    """Collector of nodes and values."""

    def __init__(
        self,
        method: MethodContents,
        inside: Sequence[DelegateView],
        state: State,
        places: Mapping[int, str],
        library: ShaderLibrary,
    ) -> None:
        self._method = method
        self._plan: ExecutionPlan = method.plan
        self._inside = inside
        self._state = state
        self._places = places
        self._library = library
        self._nodes: list[Node] = []
        self._values: dict[str, GraphValue] = {}
        self._same: dict[str, str] = {}  # values of the method that are also values of a delegate
        self._delegates = 0
        self._place = -1  # index of the instruction under way

    def add(self, instruction: Instruction) -> None:
        self._place += 1
        if isinstance(instruction, DelegateCall):
            self._add_delegate(instruction)
        elif isinstance(instruction, KernelCall):
            self._add_kernel(instruction)
        elif not isinstance(instruction, FreeCall):
            self._add_control(instruction)

    def _node(
        self,
        op: str,
        label: str,
        place: tuple[str, str | None],
        *,
        inputs: Iterable[str],
        **rest: Any,
    ) -> None:
        empty: dict[str, Any] = {"delegate": None, "call": None, "kernels": ()}
        empty |= {"arguments": (), "changes": (), "place": self._place}
        where, why = place
        given = tuple(dict.fromkeys(inputs))
        self._nodes.append(
            Node(len(self._nodes), op, label, where, why, inputs=given, **{**empty, **rest})
        )

    # Outside of delegates

    def _add_kernel(self, call: KernelCall) -> None:
        name = self._plan.operators[call.op_index].full_name
        kernel, uses = lookup_kernel(name), uses_of(self._method, call)
        names = () if kernel is None else kernel.parameters
        arguments = [
            Argument(parameter, "any", self._literal(index), tuple(self._tensors((index,))))
            for parameter, index in zip(names, call.args, strict=False)
        ]
        changed = set() if kernel is None else {call.args[at] for at in kernel.changed}
        writes, changes = (
            tuple(self._tensors(sorted(indices)))
            for indices in (uses.writes - changed, uses.writes & changed)
        )
        self._node(
            name,
            name,
            (self._places.get(id(call), "host"), self._method.hosted.get(id(call))),
            inputs=self._tensors(sorted(uses.reads)),
            outputs=writes,
            changes=changes,
            origins=(f"{KERNEL}{name}",),
            arguments=tuple(arguments),
            frames=call.frames,
        )

    def _add_control(self, instruction: MoveCall | JumpFalseCall) -> None:
        if isinstance(instruction, MoveCall):
            source, target = instruction.move_from, instruction.move_to
            given, made = self._tensors((source,)), tuple(self._tensors((target,)))
            self._node("move", "move", ("host", None), inputs=given, outputs=made)
        else:
            where = Argument("destination", "int", instruction.destination)
            given = self._tensors((instruction.cond_value_index,))
            label = "jump if false"
            self._node(label, label, ("host", None), inputs=given, outputs=(), arguments=(where,))

    def _literal(self, index: int) -> Any:
        value = self._plan.values[index]
        if isinstance(value, TensorMeta | TensorList | OptionalTensorList):
            return None
        if isinstance(value, IntListRef):
            return [self._plan.values[item] for item in value.items]
        return list(value.items) if isinstance(value, DoubleList | BoolList) else value

    def _tensors(self, indices: Iterable[int]) -> list[str]:
        """Return the keys of the tensors among values of the method, and in lists among them."""
        found = []
        for index in indices:
            value = self._plan.values[index]
            if isinstance(value, TensorList | OptionalTensorList):
                found += self._tensors(item for item in value.items if item >= 0)
            elif isinstance(value, TensorMeta):
                found.append(self._key(index, value))
        return found

    def _key(self, index: int, value: TensorMeta) -> str:
        key = f"v{index}"
        if key in self._same:
            return self._same[key]
        if key not in self._values:
            cell, dtype = self._state.get(index), dtype_of_program(value.scalar_type, key).name
            constant = None
            if cell is not None and cell.region is not None:
                name = value.extra.fully_qualified_name if value.extra is not None else ""
                region = cell.region
                constant = StoredConstant(name or None, value.sizes, dtype, value.nbytes, region)
            kind = "temporary" if cell is None else "state" if cell.mutable else "constant"
            kind = "input" if index in self._plan.inputs else kind
            sizes = value.sizes
            self._values[key] = GraphValue(key, kind, dtype, sizes, sizes, None, constant)
        return key

    # Inside of delegates

    def _add_delegate(self, call: DelegateCall) -> None:
        inside, number = self._inside[call.delegate_index], self._delegates
        self._delegates += 1
        graph = inside.graph
        taken = len(graph.inputs)
        keys: dict[int, str] = {}
        for index, value_id in zip(call.args[:taken], graph.inputs, strict=True):
            keys[value_id] = self._same.get(f"v{index}", f"v{index}")
        for index, value_id in zip(call.args[taken:], graph.outputs, strict=True):
            key = keys.setdefault(value_id, f"v{index}")
            self._same.pop(f"v{index}", None)
            if key != f"v{index}":
                self._same[f"v{index}"] = key
        calls = [i for i in self._plan.instructions if isinstance(i, DelegateCall)]
        steps = self._method.steps(call.delegate_index)
        name = " + ".join(steps) if len(calls) > 1 else ""
        packs = {each.args[-1]: each.args[0] for each in Dataflow.of(graph).prepacks}
        about = (packs, resolve_ops(graph), steps[0], call.frames)
        scope = _Scope(inside, number, keys, name, *about)
        for value_id in dict.fromkeys((*graph.inputs, *graph.outputs)):
            self._graph_value(scope, value_id)
        for each in graph.calls:
            if each.name != PREPACK:
                self._add_call(scope, each)

    def _add_call(self, scope: _Scope, call: Call) -> None:
        graph = scope.inside.graph
        flow, op = Dataflow.of(graph), scope.ops.get(call.index)
        parameters = () if op is None else op.signature.parameters
        arguments = [
            self._argument(scope, parameter.name, parameter.kind, value_id)
            for parameter, value_id in zip(parameters, call.args[:-1], strict=False)
            if parameter.kind != "any"
        ]
        records = scope.inside.records(call)
        leaves = list(_leaves(call))
        changed = flow.changes(call)
        self._node(
            call.kernel or call.name,
            str(call) if call.kernel or call.place or not scope.name else f"{scope.name}: {call}",
            scope.inside.place(call),
            inputs=self._graph_values(scope, flow.takes(call)),
            outputs=tuple(
                self._graph_values(scope, [i for i in flow.gives(call) if i not in changed])
            ),
            changes=tuple(self._graph_values(scope, changed)),
            delegate=scope.number,
            call=call.index,
            _keys=scope.keys,
            parts=tuple(leaf.kernel or leaf.name for leaf in leaves) if call.parts else (),
            origins=tuple(filter(None, map(scope.origin, leaves))),
            arguments=tuple(arguments),
            kernels=tuple(kernel_of(record, self._library) for record in records),
            frames=next((leaf.frames for leaf in leaves if leaf.frames), scope.frames),
        )

    def _argument(self, scope: _Scope, name: str, kind: str, value_id: int) -> Argument:
        value = scope.inside.graph.value(value_id)
        keys = tuple(self._graph_values(scope, scope.inside.graph.expand((value_id,))))
        if isinstance(value, Tensor | SymIntValue | ValueListValue | NullValue):
            return Argument(name, kind, None, keys)
        if isinstance(value, IntListValue | DoubleListValue | BoolListValue):
            return Argument(name, kind, list(value.items))
        return Argument(name, kind, value.value)

    def _graph_values(self, scope: _Scope, value_ids: Iterable[int]) -> list[str]:
        graph = scope.inside.graph
        kept = [i for i in value_ids if isinstance(graph.value(i), Tensor | SymIntValue)]
        return [self._graph_value(scope, i) for i in dict.fromkeys(kept)]

    def _graph_value(self, scope: _Scope, value_id: int) -> str:
        key = scope.keys.setdefault(value_id, f"{scope.number}.{value_id}")
        graph, live = scope.inside.graph, scope.inside.live
        value = graph.value(value_id)
        if key in self._values and (live is None or self._values[key].kind in KNOWN):
            return key
        if isinstance(value, Tensor):
            shape = value.dims if live is None else live.cur_dims(value_id)
            kind, constant = scope.kind(value_id)
            dtype, dims = value.dtype.name, value.dims
            self._values[key] = GraphValue(key, kind, dtype, shape, dims, None, constant)
        else:
            number = graph.symint(value_id).value if live is None else live.symint(value_id)
            self._values[key] = GraphValue(key, "number", "int64", (), (), number, None)
        return key

    # The whole

    def result(self, program: str, stage: str) -> MethodGraph:
        inputs = self._ends(self._plan.inputs, "input")
        outputs = self._ends(self._plan.outputs, "output")
        groups = group_layers(self._nodes, self._values)
        nodes = list(self._nodes)
        for group in groups:
            for number, (start, stop) in enumerate(group.ranges):
                for i in range(start, stop):
                    nodes[i] = replace(nodes[i], layer=f"{group.name} {number}")
        return MethodGraph(
            program,
            self._method.info.name,
            stage,
            tuple(nodes),
            self._values,
            tuple(self._edges(outputs)),
            inputs,
            outputs,
            groups,
        )

    def _ends(self, indices: Collection[int], kind: str) -> tuple[str, ...]:
        keys = self._tensors(indices)
        for key in keys:
            if self._values[key].kind == "temporary":
                self._values[key] = replace(self._values[key], kind=kind)
        return tuple(keys)

    def _edges(self, outputs: Iterable[str]) -> Iterable[Edge]:
        latest: dict[str, int] = {}
        for node in self._nodes:
            for key in node.inputs:
                yield Edge(latest.get(key), node.id, key)
            latest |= dict.fromkeys((*node.outputs, *node.changes), node.id)
        for key in outputs:
            yield Edge(latest.get(key), None, key)


def _leaves(call: Call) -> Iterator[Call]:
    """Yield the calls that a fused call stands for; yield any other call itself."""
    if not call.parts:
        yield call
    for part in call.parts:
        yield from _leaves(part)


# kinds of a value that are known from the method itself
KNOWN = ("input", "constant", "state", "output")


@dataclass(frozen=True)
class _Scope:
    """A call of a delegate: the keys of its values, and its name if it is not alone."""

    inside: DelegateView
    number: int
    keys: dict[int, str]
    name: str
    packs: Mapping[int, int]  # values that prepacks fill, by the constants that they take
    ops: Mapping[int, OpDef]
    step: str  # the name of the step of the file, if the delegate is a step
    frames: tuple[Frame, ...]  # of the call of the delegate

    def origin(self, call: Call) -> str | None:
        """Return the name of the file's call that a call was made from."""
        if call.kernel is not None:
            return f"{KERNEL}{call.kernel}"
        if call.origin is None:
            return None
        step = call.place.partition(": ")[0] if call.place is not None else self.step
        return f"{step}: {call.origin}"

    def kind(self, value_id: int) -> tuple[str, StoredConstant | None]:
        graph = self.inside.graph
        flow, tensor = Dataflow.of(graph), graph.tensor(value_id)
        if value_id not in flow.stored:
            return "temporary", None
        source = graph.tensor(self.packs.get(value_id, value_id)).constant
        assert source is not None, "see check_prepack"
        size = tensor.file_bytes
        stored = StoredConstant(
            source.key, tensor.dims, tensor.dtype.name, size, source.region.head(size)
        )
        return "state" if value_id in flow.state else "constant", stored
