"""Dataflow of a graph: an index of the values that each call reads, writes and mutates.

Ids are expanded by `Graph.expand`: a list of values is followed by its members. A prepack runs
before the first call, wherever it stands, so its output counts as *given*, like inputs and
constants, and the prepack does not count as a writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from webpte.engine.graph.graph import PREPACK, Call, Graph, Tensor
from webpte.engine.ops import definition_of


class Dataflow:
    """The dataflow index of a graph. Use `Dataflow.of`: it is cached with the immutable graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors_of: dict[tuple[int, ...], tuple[int, ...]] = {}

    @classmethod
    def of(cls, graph: Graph) -> Dataflow:
        found = graph.derived.get(cls)
        if not isinstance(found, Dataflow):
            found = graph.derived[cls] = cls(graph)
        return found

    # A single call

    def takes(self, call: Call) -> tuple[int, ...]:
        """Return every value among the arguments, once."""
        return tuple(dict.fromkeys(self._graph.expand(call.args[:-1])))

    def gives(self, call: Call) -> tuple[int, ...]:
        """Return every value among the outputs, as often as it occurs."""
        return self._graph.expand(call.args[-1:])

    def changes(self, call: Call) -> tuple[int, ...]:
        """Return the tensors among the arguments that the call mutates."""
        op = definition_of(call)
        if op is None or not op.mutates:
            return ()
        named = zip(op.signature.parameters, call.args[:-1], strict=False)
        ids = tuple(i for parameter, i in named if parameter.name in op.mutates)
        return self._tensors(self._graph.expand(ids))

    def reads(self, call: Call) -> tuple[int, ...]:
        """Return the tensors among the arguments."""
        return self._tensors(self._graph.expand(call.args[:-1]))

    def writes(self, call: Call) -> tuple[int, ...]:
        """Return the tensors among the outputs, and the tensors that the call mutates."""
        return self._tensors((*self.gives(call), *self.changes(call)))

    def _tensors(self, value_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return the tensors among the values, each once."""
        found = self._tensors_of.get(value_ids)
        if found is None:
            each = dict.fromkeys(value_ids)
            found = tuple(i for i in each if isinstance(self._graph.value(i), Tensor))
            self._tensors_of[value_ids] = found
        return found

    # All calls

    @cached_property
    def prepacks(self) -> tuple[Call, ...]:
        return tuple(call for call in self._graph.calls if call.name == PREPACK)

    @cached_property
    def computing(self) -> tuple[Call, ...]:
        """Calls that are not prepacks."""
        return tuple(call for call in self._graph.calls if call.name != PREPACK)

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """Indices of the calls that take each value, including prepacks, each once and in order."""
        return self._by_value(self._graph.calls, self.takes)

    @cached_property
    def writers(self) -> dict[int, tuple[int, ...]]:
        """Indices of the calls that output each value, with repetitions; see also `changes`."""
        return self._by_value(self.computing, self.gives)

    @staticmethod
    def _by_value(
        calls: Iterable[Call], values: Callable[[Call], Iterable[int]]
    ) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for call in calls:
            for value_id in values(call):
                found.setdefault(value_id, []).append(call.index)
        return {value_id: tuple(indices) for value_id, indices in found.items()}

    @cached_property
    def mutated(self) -> frozenset[int]:
        """Tensors that some call changes in place."""
        return frozenset(i for call in self.computing for i in self.changes(call))

    @cached_property
    def prepacked(self) -> Counter[int]:
        """Values that prepacks fill, with the number of prepacks that fill each."""
        return Counter(i for call in self.prepacks for i in call.args[-1:])

    @cached_property
    def constants(self) -> frozenset[int]:
        """Tensors with bytes in the file."""
        return frozenset(t.id for t in self._graph.tensors() if t.constant is not None)

    @cached_property
    def stored(self) -> frozenset[int]:
        """Tensors that start with bytes of the file and keep their contents from call to call."""
        return self.constants | self.prepacked.keys()

    @cached_property
    def given(self) -> frozenset[int]:
        """Values that exist before the first call."""
        return self.stored | set(self._graph.inputs)

    @cached_property
    def used(self) -> frozenset[int]:
        """Values that are outputs, or arguments of a call that is not a prepack."""
        touched = (i for call in self.computing for i in self._graph.expand(call.args))
        return frozenset(self._graph.outputs).union(touched)

    # Derived properties

    def times_written(self, value_id: int) -> int:
        """Count the writes per execution; an upload or a constant's bytes count as a write."""
        return len(self.writers.get(value_id, ())) + (value_id in self.given)

    @cached_property
    def volatile(self) -> frozenset[int]:
        """Values that are mutated, written by several calls, or both given and written."""
        return self.mutated.union(i for i in self.writers if self.times_written(i) > 1)

    @cached_property
    def state(self) -> frozenset[int]:
        """Tensors that start with bytes of the file and that calls write to: lasting state."""
        return self.stored & self.volatile
