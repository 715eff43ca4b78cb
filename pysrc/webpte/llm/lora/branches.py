"""Adds branches for LoRA to the linear layers of a file, when the file is loaded.

The exporter records which weights belong to which layer of the model (the constant method
`get_linear_layers`, see webpte_export/layer_names.py), so no new export is needed to give a program
room for LoRA, of any rank and for any of its linear layers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.call.info import ScalarInfo
from webpte.engine.files.json_reader import Table, parse_table, shown
from webpte.engine.format.vulkan import IntValue, NullValue
from webpte.engine.graph.graph import Call, Constant, Graph, Tensor, Value
from webpte.engine.load.program_file import OPTIONAL_METHODS, Contents, described
from webpte.engine.ops import definition_of
from webpte.engine.ops.gemm.fused_linear_q4 import ALL_LINEARS
from webpte.engine.ops.gemm.matmul import LINEAR
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.errors import FormatError, InputError, UnsupportedError
from webpte.llm.lora.slots import Branch, LinearModule, LoraRoom, LoraSlot, LoraSlots, SlotPlanner

LAYERS_METHOD = "get_linear_layers"
ADD = "aten.add.Tensor"
# Operators of linear layers: the names of their input and weights.
OPERANDS = {
    **dict.fromkeys(ALL_LINEARS, ("x", "weight")),
    "aten.mm.default": ("self", "mat2"),
    "aten.addmm.default": ("mat1", "mat2"),
}


def with_room(contents: Contents, room: LoraRoom | int) -> tuple[Contents, LoraSlots]:
    """Return a file whose linear layers have branches for LoRA, and the slots of the branches."""
    room = LoraRoom(room) if isinstance(room, int) else room
    modules = _chosen(_modules_of(contents), room, contents.source.name)
    planner, found = SlotPlanner(room), dict[tuple[str, int], list[_Siblings]]()
    for name, method in contents.methods.items():
        for index, graph in enumerate(method.graphs):
            # the method "learn" takes a LoRA as its input
            if graph is not None and name not in OPTIONAL_METHODS:
                groups = list(_groups(graph, _layers(graph, modules)))
                found[name, index] = groups
                for group in groups:
                    group.plan(graph, planner)
    if not planner.branches:
        raise UnsupportedError(
            f"{contents.source.name}: none of its linear layers is one that can take a LoRA"
        )
    slots = LoraSlots.of(room, planner.branches)
    methods = dict(contents.methods)
    for name, method in methods.items():
        graphs = tuple(
            graph if graph is None else _branched(graph, found.get((name, index), []), slots)
            for index, graph in enumerate(method.graphs)
        )
        if graphs != method.graphs:
            info = described(method.plan, graphs)
            methods[name] = replace(method, graphs=graphs, info=info)
    return replace(contents, methods=methods), slots


def _modules_of(contents: Contents) -> list[LinearModule]:
    """Return the linear layers that the exporter has named."""
    method = contents.methods.get(LAYERS_METHOD)
    outputs = () if method is None else method.info.outputs
    said = outputs[0] if len(outputs) == 1 else None
    if not isinstance(said, ScalarInfo) or not isinstance(said.value, str):
        raise UnsupportedError(
            f"{contents.source.name} does not name its linear layers (method {LAYERS_METHOD!r}), "
            "so it cannot take a LoRA: export it with `serve.py export` from the model's folder"
        )

    return read_modules(said.value, f"{contents.source.name}: {LAYERS_METHOD}")


def read_modules(text: str, name: str) -> list[LinearModule]:
    """Read the exporter's description of linear layers."""

    def fail(message: str) -> FormatError:
        return FormatError(message, 0)

    table = parse_table(text, name, fail)
    layers = table.table("layers")
    shifts = [_vector(one, name) for one in table.listed("shifts", [])]
    return [
        _module(part, layer, shifts) for layer in layers.content for part in layers.tables(layer)
    ]


def _vector(text: object, name: str) -> np.ndarray:
    try:
        assert isinstance(text, str)
        return np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (ValueError, AssertionError) as error:
        raise FormatError(f"{name}: a shift is not a vector of float32 in base64", 0) from error


def _module(part: Table, layer: str, shifts: list[np.ndarray]) -> LinearModule:
    pairs, rows = _sizes(part, "pairs", 2), _sizes(part, "rows", 3)
    shift = part.integer("shift", None, low=0, high=len(shifts) - 1)
    if (pairs and (not pairs[0] or pairs[1] % 2)) or (rows and (not rows[0] or rows[1] >= rows[2])):
        raise FormatError(f"{part.name}: pairs {pairs} and rows {rows} are not possible", 0)
    return LinearModule(
        layer,
        part.text("weight"),
        None if pairs is None else (pairs[0], pairs[1]),
        None if rows is None else (rows[0], rows[1], rows[2]),
        float(part.number("scale", 1.0)),
        None if shift is None else shifts[shift],
    )


def _sizes(part: Table, key: str, count: int) -> list[int] | None:
    sizes = part.listed(key, None)
    if sizes is not None and (
        len(sizes) != count or not all(type(one) is int and 0 <= one < 1 << 32 for one in sizes)
    ):
        raise FormatError(f"{part.name}: {key} must be {count} sizes, got {shown(sizes)}", 0)
    return sizes


def _chosen(modules: list[LinearModule], room: LoraRoom, name: str) -> dict[str, LinearModule]:
    """Return the layers of a room by the key of their weights."""
    if room.modules is None:
        wanted = [module for module in modules if _is_in_a_layer(module.name)]
    else:
        for end in room.modules:
            if not any(ends_with(module.name, end) for module in modules):
                known = sorted({module.name.rpartition(".")[2] for module in modules})
                raise InputError(f"{name} has no linear layer {end!r}; it has {', '.join(known)}")
        wanted = [
            module for module in modules if any(ends_with(module.name, end) for end in room.modules)
        ]
    keys = [module.key for module in modules]
    for module in wanted:
        if keys.count(module.key) > 1:
            raise UnsupportedError(
                f"{name}: layer {module.name!r} has the same weights as another one, so the file "
                "does not tell which is which"
            )
    return {module.key: module for module in wanted}


def _is_in_a_layer(name: str) -> bool:
    """Return whether a name has the number of a layer, unlike the name of the head."""
    return any(part.isdecimal() for part in name.split("."))


def ends_with(name: str, end: str) -> bool:
    """Return whether a layer's name ends with whole parts, as PEFT's target modules do."""
    return name == end or name.endswith(f".{end}")


@dataclass(frozen=True)
class _LinearCall:
    """A linear layer in a graph."""

    module: LinearModule
    call: Call
    x: int

    @property
    def out(self) -> int:
        return self.call.args[-1]


class _Siblings:
    """Linear layers of the same input, with their branches once these are planned."""

    def __init__(self, layers: Sequence[_LinearCall]) -> None:
        self.layers = layers
        self.branches: list[Branch] = []

    def plan(self, graph: Graph, planner: SlotPlanner) -> None:
        x = graph.tensor(self.layers[0].x)
        widths = [(layer.module, graph.tensor(layer.out).dims[-1]) for layer in self.layers]
        self.branches = planner.add(widths, x.dims[-1], x.dtype)


def _layers(graph: Graph, modules: dict[str, LinearModule]) -> Iterator[_LinearCall]:
    """Yield the linear layers of a graph whose weights belong to the modules."""
    flow = Dataflow.of(graph)
    named = {
        tensor.id: modules[tensor.constant.key]
        for tensor in graph.tensors()
        if tensor.constant is not None and tensor.constant.key in modules
    }
    named |= {c.args[-1]: named[c.args[0]] for c in flow.prepacks if c.args[0] in named}
    seen: dict[LinearModule, Call] = {}
    for call in flow.computing:
        op = definition_of(call)
        if op is None or op.name not in OPERANDS:
            continue
        x, weight = (call.args[op.signature.positions[name]] for name in OPERANDS[op.name])
        module = named.get(weight)
        if module is None:
            continue
        if module in seen:
            raise UnsupportedError(
                f"layer {module.name!r} is computed twice ({seen[module]} and {call}), so it "
                "cannot take a LoRA"
            )
        seen[module] = call
        both = graph.tensor(x), graph.tensor(call.args[-1])
        if both[0].dtype.is_float and both[0].dtype == both[1].dtype:
            yield _LinearCall(module, call, x)


def _groups(graph: Graph, layers: Iterator[_LinearCall]) -> Iterator[_Siblings]:
    """Yield layers of the same input together; views of the same tensor are the same input."""
    flow, found = Dataflow.of(graph), dict[tuple[object, ...], list[_LinearCall]]()
    for layer in layers:
        tensor = graph.tensor(layer.x)
        found.setdefault((_root(graph, flow, layer.x), tensor.dims), []).append(layer)
    for group in found.values():
        yield _Siblings(group)


def _root(graph: Graph, flow: Dataflow, value_id: int) -> int:
    """Return the tensor that a value is a view of."""
    while len(writers := flow.writers.get(value_id, ())) == 1 and value_id not in flow.mutated:
        call = graph.calls[writers[0]]
        op = definition_of(call)
        if op is None or op.alias_of is None:
            break
        value_id = call.args[op.signature.positions[op.alias_of]]
    return value_id


def _branched(graph: Graph, groups: list[_Siblings], slots: LoraSlots) -> Graph:
    return _BranchWriter(graph, groups, slots).graph() if groups else graph


class _BranchWriter:
    """Writer of a copy of the graph with the branches.

    The result of a layer gets a new value, and the layer's old value becomes the sum of the result
    and the branch. Where nothing but a sum (with a residual) reads a layer's result, the branch is
    added after that sum: then each of both sums is done by the kernel of the linear layer before
    it.
    """

    def __init__(self, graph: Graph, groups: list[_Siblings], slots: LoraSlots) -> None:
        self._graph = graph
        self._flow = Dataflow.of(graph)
        self._slots = slots
        self._values: list[Value] = list(graph.values)
        self._calls: list[Call] = []
        self._null, self._one = self._value(NullValue()), self._value(IntValue(1))
        self._group_of = {layer.call.index: group for group in groups for layer in group.layers}
        self._low: dict[int, int] = {}  # A x of each group, by the group's identity
        self._late: dict[int, tuple[int, tuple[Call, ...]]] = {}  # by the sum's index

    def graph(self) -> Graph:
        for call in self._graph.calls:
            group = self._group_of.get(call.index)
            if group is not None:
                self._add_layer(call, group)
            elif call.index in self._late:
                self._add_late(call)
            else:
                self._calls.append(call)
        calls = tuple(replace(call, index=i) for i, call in enumerate(self._calls))
        return Graph(tuple(self._values), calls, self._graph.inputs, self._graph.outputs)

    def _add_layer(self, call: Call, group: _Siblings) -> None:
        at = next(i for i, layer in enumerate(group.layers) if layer.call is call)
        layer, branch = group.layers[at], group.branches[at]
        out = self._graph.tensor(layer.out)
        way = self._way_to_sum(layer.out)
        if way is not None:
            self._calls.append(call)
            delta = self._branch(call, layer, branch, group)
            self._late[way[-1].index] = delta, way[:-1]
            return
        base = self._value(replace(out, id=len(self._values), mem_obj_id=None))
        self._calls.append(replace(call, args=(*call.args[:-1], base)))
        delta = self._branch(call, layer, branch, group)
        self._call(call, ADD, base, delta, self._one, layer.out)

    def _branch(self, call: Call, layer: _LinearCall, branch: Branch, group: _Siblings) -> int:
        """Add the branch of a layer, and the first step of its group; return its result."""
        out = self._graph.tensor(layer.out)
        if id(group) not in self._low:
            x = self._graph.tensor(layer.x)
            dims = (*x.dims[:-1], branch.a.dims[0])
            low = self._value(Tensor(len(self._values), x.dtype, dims, None, None))
            shift = self._null if branch.shift is None else self._constant(branch.shift)
            self._call(call, LINEAR, layer.x, self._constant(branch.a), shift, low)
            self._low[id(group)] = low
        delta = self._value(replace(out, id=len(self._values), mem_obj_id=None))
        self._call(call, LINEAR, self._low[id(group)], self._constant(branch.b), self._null, delta)
        return delta

    def _way_to_sum(self, value_id: int) -> tuple[Call, ...] | None:
        """Return the views and the sum that alone read a value, if the sum is of equal shapes."""
        flow, way = self._flow, list[Call]()
        while True:
            readers = flow.readers.get(value_id, ())
            if len(readers) != 1 or value_id in {*self._graph.outputs, *flow.volatile}:
                return None
            call = self._graph.calls[readers[0]]
            op = definition_of(call)
            way.append(call)
            if op is not None and op.alias_of is not None:
                value_id = call.args[-1]
                continue
            break
        if op is None or op.name != ADD or call.args[0] == call.args[1] or call.index in self._late:
            return None
        tensors = [self._graph.value(i) for i in (*call.args[:2], call.args[-1])]
        alike = {(t.dims, t.dtype) for t in tensors if isinstance(t, Tensor)}
        written = {call.args[-1]} & {*self._graph.outputs, *flow.volatile}
        alpha = self._graph.value(call.args[2]) if len(call.args) > 3 else IntValue(1)
        is_one = getattr(alpha, "value", None) == 1
        return tuple(way) if len(alike) == 1 and is_one and not written else None

    def _add_late(self, call: Call) -> None:
        """Add a sum with a residual, and then the branch, seen as the layer's result was."""
        out = self._graph.tensor(call.args[-1])
        base = self._value(replace(out, id=len(self._values), mem_obj_id=None))
        self._calls.append(replace(call, args=(*call.args[:-1], base)))
        delta, views = self._late[call.index]
        for view in views:
            seen = replace(self._graph.tensor(view.args[-1]), id=len(self._values))
            new = self._value(replace(seen, mem_obj_id=None))
            self._calls.append(replace(view, args=(delta, *view.args[1:-1], new)))
            delta = new
        self._call(call, ADD, base, delta, self._one, call.args[-1])

    def _constant(self, slot: LoraSlot) -> int:

        constant = Constant(self._slots.region(slot), None)
        return self._value(Tensor(len(self._values), slot.dtype, slot.dims, constant, None))

    def _value(self, value: Value) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def _call(self, near: Call, name: str, *args: int) -> None:
        """Add a call that belongs to a layer of the file."""
        self._calls.append(
            Call(-1, name, args, place=f"LoRA of {near}", origin=near.origin, frames=near.frames)
        )
