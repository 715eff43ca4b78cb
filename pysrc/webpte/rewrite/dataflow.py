"""Which call reads, writes and changes what: one index per graph, for everyone who asks.

Ids are as `Graph.expand` gives them: a list of values, then its members. A prepack is not among the
writers. It happens before the first call, wherever it stands, so what it fills is *given*, as
inputs and constants are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from webpte.graph.graph import PREPACK, Call, Graph, Tensor
from webpte.ops import definition_of


class Dataflow:
    """Use `Dataflow.of`: what is found out is kept with the graph, which never changes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @classmethod
    def of(cls, graph: Graph) -> Dataflow:
        found = graph.derived.get(cls)
        if not isinstance(found, Dataflow):
            found = graph.derived[cls] = cls(graph)
        return found

    # One call

    def takes(self, call: Call) -> tuple[int, ...]:
        """Every value among the arguments, once."""
        return tuple(dict.fromkeys(self._graph.expand(call.args[:-1])))

    def gives(self, call: Call) -> tuple[int, ...]:
        """Every value among the outputs, as often as it stands there."""
        return tuple(self._graph.expand(call.args[-1:]))

    def changes(self, call: Call) -> tuple[int, ...]:
        """The tensors among the arguments that the call writes to."""
        op = definition_of(call)
        if op is None or not op.mutates:
            return ()
        named = zip(op.signature.parameters, call.args[:-1], strict=False)
        ids = tuple(i for parameter, i in named if parameter.name in op.mutates)
        return self._tensors(self._graph.expand(ids))

    def reads(self, call: Call) -> tuple[int, ...]:
        """The tensors among the arguments."""
        return self._tensors(self.takes(call))

    def writes(self, call: Call) -> tuple[int, ...]:
        """The tensors among the outputs, and what the call changes in place."""
        return self._tensors((*self.gives(call), *self.changes(call)))

    def _tensors(self, value_ids: Iterable[int]) -> tuple[int, ...]:
        found = dict.fromkeys(value_ids)
        return tuple(i for i in found if isinstance(self._graph.value(i), Tensor))

    # All calls

    @cached_property
    def prepacks(self) -> tuple[Call, ...]:
        return tuple(call for call in self._graph.calls if call.name == PREPACK)

    @cached_property
    def computing(self) -> tuple[Call, ...]:
        """The calls that are no prepacks."""
        return tuple(call for call in self._graph.calls if call.name != PREPACK)

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """Value id to the calls that take it, prepacks included, each once and in order."""
        return self._by_value(self._graph.calls, self.takes)

    @cached_property
    def writers(self) -> dict[int, tuple[int, ...]]:
        """Value id to the calls whose output it is, as often as it is one; see `changes`, too."""
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
        """The tensors that some call changes in place."""
        return frozenset(i for call in self.computing for i in self.changes(call))

    @cached_property
    def prepacked(self) -> Counter[int]:
        """The values that prepacks fill, and how many fill each."""
        return Counter(i for call in self.prepacks for i in call.args[-1:])

    @cached_property
    def constants(self) -> frozenset[int]:
        """The tensors with bytes in the file."""
        return frozenset(t.id for t in self._graph.tensors() if t.constant is not None)

    @cached_property
    def stored(self) -> frozenset[int]:
        """What starts with bytes of the file, and keeps from call to call what it is."""
        return self.constants | self.prepacked.keys()

    @cached_property
    def given(self) -> frozenset[int]:
        """What is there before the first call."""
        return self.stored | set(self._graph.inputs)

    @cached_property
    def used(self) -> frozenset[int]:
        """What is an output, or touched by a call that is no prepack."""
        touched = (i for call in self.computing for i in self._graph.expand(call.args))
        return frozenset(self._graph.outputs).union(touched)

    # What follows from it

    def times_written(self, value_id: int) -> int:
        """Writes per execution; an upload, and the bytes of a constant, count as one."""
        return len(self.writers.get(value_id, ())) + (value_id in self.given)

    @cached_property
    def volatile(self) -> frozenset[int]:
        """Values that are written in place, or by more than one call, or both given and written."""
        return self.mutated.union(i for i in self.writers if self.times_written(i) > 1)

    @cached_property
    def state(self) -> frozenset[int]:
        """What starts with bytes of the file, and what calls write to: it outlives them."""
        return self.stored & self.volatile
