"""Patterns over the dataflow of a graph, and the fused calls that replace their matches.

A rule takes a call and returns the calls to fuse with it: a `Match`. A match is accepted if:

- no other call reads the results that the fused call drops, and the graph does not output them;
- only the last part touches values that are written more than once or changed in place;
- there is a place in the order of calls after all its inputs and before all its readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from webpte.engine.format.vulkan import SymIntValue, ValueListValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.ops import definition_of
from webpte.engine.rewrite.dataflow import Dataflow


@dataclass(frozen=True)
class Match:
    """The calls that a rule would fuse: `parts`, in an order in which they can run.

    Other calls may read only the `outputs` of the parts.
    """

    op: str
    parts: tuple[Call, ...]
    outputs: tuple[int, ...]


class Calls:
    """Queries about a graph, for the rules."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.flow = Dataflow.of(graph)

    def writer(self, value_id: int) -> Call | None:
        """Return the call that writes a value, if no other call writes it."""
        if self.flow.times_written(value_id) != 1 or value_id in self.flow.mutated:
            return None
        writers = self.flow.writers.get(value_id, ())
        return self.graph.calls[writers[0]] if writers else None

    def readers(self, value_id: int) -> list[Call]:
        return [self.graph.calls[i] for i in self.flow.readers.get(value_id, ())]

    def only_reader(self, value_id: int) -> Call | None:
        """Return the only call that reads a value, if the graph does not output it."""
        readers = self.readers(value_id)
        return readers[0] if len(readers) == 1 and value_id not in self.graph.outputs else None

    def is_view(self, call: Call) -> bool:
        """Return whether a call is a view: its input under another shape."""
        op = definition_of(call)
        if op is None or op.alias_of is None:
            return False
        source = self.graph.value(self.viewed(call))
        out = self.graph.value(call.args[-1])
        return isinstance(source, Tensor) and isinstance(out, Tensor) and source.dtype == out.dtype

    def viewed(self, call: Call) -> int:
        """Return the input of a view."""
        op = definition_of(call)
        assert op is not None
        assert op.alias_of is not None
        return call.args[op.signature.positions[op.alias_of]]

    def producer(self, value_id: int) -> tuple[Call | None, tuple[Call, ...]]:
        """Return the call that computes a value, and the views of its result up to the value."""
        views: list[Call] = []
        writer = self.writer(value_id)
        while writer is not None and self.is_view(writer):
            views.append(writer)
            writer = self.writer(self.viewed(writer))
        return writer, tuple(reversed(views))

    def sole_user(self, value_id: int) -> tuple[Call | None, tuple[Call, ...]]:
        """Return the only call that reads a value, maybe through views, and the views."""
        views: list[Call] = []
        reader = self.only_reader(value_id)
        while reader is not None and self.is_view(reader):
            views.append(reader)
            reader = self.only_reader(reader.args[-1])
        return reader, tuple(views)

    def argument(self, call: Call, name: str) -> int:
        """Return the value id of an argument by its name; -1 if the file leaves it out."""
        op = definition_of(call)
        assert op is not None
        position = op.signature.positions[name]
        return call.args[position] if position < len(call.args) - 1 else -1


Rule = Callable[[Calls, Call], Match | None]
_RULES: dict[tuple[int, int], Rule] = {}  # by round and rank


def rule(rank: int, *, round: int = 1) -> Callable[[Rule], Rule]:
    """Add a function to the rules.

    rank   of two rules that match a call, the rule with the lower rank wins
    round  the rules of a round see the graph that the rounds before have left
    """

    def add(function: Rule) -> Rule:
        known = _RULES.setdefault((round, rank), function)
        assert known is function, f"{function.__name__} has the rank of {known.__name__}"
        return function

    return add


def rounds() -> list[list[Rule]]:
    """Return the rules of each round, in the order of their ranks."""
    numbers = sorted({number for number, _ in _RULES})
    return [[_RULES[key] for key in sorted(_RULES) if key[0] == number] for number in numbers]


def apply(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """Return the graph with all accepted matches fused; a call is part of at most one match.

    The last calls come first, as a chain is found from its end. For each call, the first rule with
    a match wins.
    """
    calls = Calls(graph)
    rewriting = _Rewriting(calls)
    for call in reversed(calls.flow.computing):
        for rule in rules:
            if call.index not in rewriting.taken and (found := rule(calls, call)) is not None:
                rewriting.consider(found)
    return rewriting.result() if rewriting.taken else graph


# (index of a call, 0 before the call or 1 at it)
_Place = tuple[int, int]


class _Rewriting:
    """The accepted matches of some rules in one graph."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._graph = calls.graph
        self._flow = calls.flow
        self._found: list[tuple[_Place, Match]] = []
        self.taken: dict[int, _Place] = {}  # index of a part to its new place

    def consider(self, found: Match) -> None:
        """Accept a match if all conditions hold."""
        indices = {part.index for part in found.parts}
        if len(indices) < len(found.parts) or not indices.isdisjoint(self.taken):
            return
        if not (self._is_closed(found, indices) and self._is_steady(found)):
            return
        place = self._place(found, indices)
        if place is not None:
            self._found.append((place, found))
            self.taken |= dict.fromkeys(indices, place)

    def _is_closed(self, found: Match, indices: set[int]) -> bool:
        """Return whether other calls read only the outputs."""
        for value_id in self._given(found.parts):
            if value_id in found.outputs:
                continue
            readers = set(self._flow.readers.get(value_id, ()))
            if readers - indices or value_id in self._graph.outputs:
                return False
        return all(isinstance(self._graph.value(i), Tensor) for i in found.outputs)

    def _given(self, parts: Iterable[Call]) -> list[int]:
        return [i for part in parts for i in self._flow.gives(part) if self._is_live(i)]

    def _is_live(self, value_id: int) -> bool:
        return isinstance(self._graph.value(value_id), Tensor | SymIntValue)

    def _is_steady(self, found: Match) -> bool:
        """Return whether only the last part touches values that other calls write."""
        touched = {
            i
            for part in found.parts[:-1]
            for i in (*self._flow.takes(part), *self._flow.gives(part))
        }
        return touched.isdisjoint(self._flow.volatile)

    def _place(self, found: Match, indices: set[int]) -> _Place | None:
        """Return the place of the fused call: its last part's, or before its first reader."""
        given = set(self._given(found.parts))
        taken = {i for part in found.parts for i in self._flow.takes(part)} - given
        low = max(
            (self._now(w) for i in taken for w in self._flow.writers.get(i, ())), default=(-1, 0)
        )
        readers = {r for i in found.outputs for r in self._flow.readers.get(i, ())} - indices
        last = found.parts[-1]
        place = (last.index, 1)
        high = min((self._now(reader) for reader in readers), default=(len(self._graph.calls), 0))
        touched = (*self._flow.takes(last), *found.outputs)
        if high <= place and self._flow.volatile.isdisjoint(touched):
            place = (high[0], 0)
        return place if low < place < high or (place[0] == high[0] and low < place) else None

    def _now(self, index: int) -> _Place:
        return self.taken.get(index, (index, 1))

    def result(self) -> Graph:
        values: list[Value] = list(self._graph.values)
        kept = [((c.index, 1), c) for c in self._graph.calls if c.index not in self.taken]
        # Of two matches at the same place, the match found first reads the match found last, never
        # the other way around: a reader's place is after the places of everything that it reads.
        fused = [(place, self._fused(found, values)) for place, found in reversed(self._found)]
        ordered = [call for _, call in sorted([*kept, *fused], key=lambda item: item[0])]
        calls = tuple(replace(call, index=i) for i, call in enumerate(ordered))
        return Graph(tuple(values), calls, self._graph.inputs, self._graph.outputs)

    def _fused(self, found: Match, values: list[Value]) -> Call:
        """Build the fused call; its arguments are lists, see ops/core/fused_call.py."""
        flow, given = self._flow, set(self._given(found.parts))
        takes = dict.fromkeys(i for part in found.parts for i in flow.takes(part) if i not in given)
        changed = dict.fromkeys(i for part in found.parts for i in flow.changes(part))
        inputs = [i for i in takes if isinstance(values[i], Tensor) and i not in changed]
        hooked = {i for part in found.parts for i in self._hooked(part)}
        symints = [i for i in takes if isinstance(values[i], SymIntValue)]
        lists = (
            inputs,
            list(changed),
            [i for i in symints if i in hooked],
            [i for i in symints if i not in hooked],
            list(found.outputs),
        )
        first = len(values)
        values.extend(ValueListValue(tuple(ids)) for ids in lists)
        args = tuple(range(first, first + len(lists)))
        last = found.parts[-1]  # its result is the fused call's, so its name fits best
        return Call(-1, found.op, args, last.kernel, last.place, found.parts)

    def _hooked(self, part: Call) -> Iterable[int]:
        """Return the values of a part whose change needs a new lowering, not just a uniform."""
        op = definition_of(part)
        assert op is not None, "of a part"
        named = zip(op.signature.parameters, part.args[:-1], strict=False)
        ids = tuple(i for parameter, i in named if parameter.decides)
        return self._graph.expand(ids)
