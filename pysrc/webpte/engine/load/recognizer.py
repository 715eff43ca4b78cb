"""The search of a graph for operators that a file writes out as several calls.

A recognizer visits calls, follows values to the calls that computed them, and replaces the last
call of each group that it finds. Calls whose results nobody needs any more are dropped at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from webpte.engine.format.vulkan import IntListValue, IntValue, ValueListValue
from webpte.engine.graph.graph import PREPACK, Call, Graph, Value
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import constant_transfers
from webpte.engine.shapes import Dims, numel

VIEWS = (
    *("aten.view_copy.default", "aten.alias_copy.default", "aten.clone.default"),
    *("aten.squeeze_copy.dims", "aten.unsqueeze_copy.default"),
)
CAST = "aten._to_copy.default"


class Recognizer:
    """A graph being rewritten: calls to replace, and values that their replacements need.

    `scalars` are the constants that are a single number, by value id.
    """

    def __init__(self, graph: Graph, scalars: Mapping[int, float]) -> None:
        self.graph = graph
        self.flow = Dataflow.of(graph)
        self.scalars = scalars
        self.replaced: dict[int, Call | None] = {}  # by index; None: removed
        self._before: dict[int, list[Call]] = {}  # calls to add, by the index of the call after
        self._values: list[Value] = list(graph.values)

    def visit(self, call: Call) -> None:
        """Replace a call if it is the last of a group of calls that stand for an operator."""
        raise NotImplementedError

    def run(self) -> Graph:
        """Visit all calls; return the graph without calls whose results nobody needs any more."""
        for call in self.graph.calls:
            self.visit(call)
        if not self.replaced:
            return self.graph
        calls = list[Call]()
        for call in self.graph.calls:
            changed = self.replaced.get(call.index, call)
            calls += self._before.get(call.index, [])
            calls += [] if changed is None else [changed]
        whole = Graph(
            tuple(self._values),
            tuple(replace(call, index=i) for i, call in enumerate(calls)),
            self.graph.inputs,
            self.graph.outputs,
        )
        return _without_dead_calls(whole)

    def put_before(self, call: Call, added: Call) -> None:
        """Add a call before a call that is replaced."""
        self._before.setdefault(call.index, []).append(added)

    def add(self, value: Value) -> int:
        self._values.append(value)
        return len(self._values) - 1

    @property
    def next_id(self) -> int:
        """The id of the next value that is added."""
        return len(self._values)

    def number(self, value_id: int) -> float | None:
        """Return the number that a value is, through views."""
        while value_id not in self.scalars:
            view = self.origin(value_id, *VIEWS)
            if view is None:
                return None
            value_id = view.args[0]
        return self.scalars[value_id]

    def is_plain_sum(self, call: Call) -> bool:
        """Return whether a sum or a difference scales neither of its terms."""
        if len(call.args) < 4:
            return True
        return getattr(self.graph.value(call.args[2]), "value", None) == 1

    def writer(self, value_id: int, *names: str) -> Call | None:
        """Return the call of these names that computes a value for a single other call."""
        call = self.origin(value_id, *names)
        alone = len(self.flow.readers.get(value_id, ())) == 1
        return call if alone and value_id not in self.graph.outputs else None

    def origin(self, value_id: int, *names: str) -> Call | None:
        """Return the call of these names that computes a value, whoever reads it."""
        writers = self.flow.writers.get(value_id, ())
        if len(writers) != 1 or value_id in self.flow.volatile:
            return None
        call = self.graph.calls[writers[0]]
        return call if call.name in names else None

    def is_steady(self, *value_ids: int) -> bool:
        """Return whether values stay the same during a run, so that a later call can read them."""
        return self.flow.volatile.isdisjoint(value_ids)

    def only_reader(self, value_id: int, name: str) -> Call | None:
        readers = self.flow.readers.get(value_id, ())
        if len(readers) != 1 or value_id in self.graph.outputs:
            return None
        call = self.graph.calls[readers[0]]
        return call if call.name == name else None

    def dims(self, value_id: int) -> Dims:
        return self.graph.tensor(value_id).dims

    def ints(self, value_id: int) -> tuple[int, ...] | None:
        value = self.graph.value(value_id)
        if isinstance(value, IntListValue):
            return tuple(value.items)
        return (value.value,) if isinstance(value, IntValue) else None


async def read_scalars(graph: Graph) -> dict[int, float]:
    """Read the constants that are a single number."""
    flow, found = Dataflow.of(graph), dict[int, float]()
    for transfer in constant_transfers(graph):
        tensor = transfer.target
        one = numel(tensor.dims) == 1 and tensor.dtype.packing is None
        if one and tensor.id not in flow.volatile and tensor.id not in graph.inputs:
            data = await transfer.constant.region.read(0, tensor.file_bytes)
            found[tensor.id] = float(tensor.dtype.from_bytes(data)[0])
    return found


def merged(graph: Graph) -> Graph:
    """Return a graph without views and casts that it makes a second time, in the same way."""
    flow = Dataflow.of(graph)
    known: dict[tuple[object, ...], int] = {}
    same: dict[int, int] = {}
    kept = list[Call]()
    for call in graph.calls:
        source, *how, out = (same.get(value_id, value_id) for value_id in call.args)
        steady = call.name in (*VIEWS, CAST) and flow.volatile.isdisjoint((source, out))
        if not steady or out in graph.outputs:
            kept.append(call)
            continue
        made = graph.tensor(out)
        key = (call.name, source, made.dims, made.dtype, *map(graph.value, how))
        if key in known:
            same[out] = known[key]
        else:
            known[key] = out
            kept.append(call)
    values = [
        ValueListValue(tuple(same.get(i, i) for i in value.items))
        if isinstance(value, ValueListValue)
        else value
        for value in graph.values
    ]
    calls = (
        replace(call, index=index, args=tuple(same.get(i, i) for i in call.args))
        for index, call in enumerate(kept)
    )
    return Graph(tuple(values), tuple(calls), graph.inputs, graph.outputs) if same else graph


def _without_dead_calls(graph: Graph) -> Graph:
    """Return a graph without calls whose results nobody needs."""
    flow = Dataflow.of(graph)
    needed, kept = set(graph.outputs), list[Call]()
    for call in reversed(graph.calls):
        lasting = bool(flow.changes(call)) or any(i in flow.state for i in flow.gives(call))
        gives = call.args[-1:] if call.name == PREPACK else flow.gives(call)
        if lasting or needed.intersection(gives):
            kept.append(call)
            needed.update(graph.expand(call.args), flow.takes(call))
            needed.update(_listed(graph, call))
    calls = tuple(replace(call, index=i) for i, call in enumerate(reversed(kept)))
    return Graph(graph.values, calls, graph.inputs, graph.outputs)


def _listed(graph: Graph, call: Call) -> set[int]:
    """Return the values in the lists among a call's arguments."""
    lists = (graph.value(i) for i in call.args)
    return {i for one in lists if isinstance(one, ValueListValue) for i in one.items}
