"""Derives the keys that a computed mask shows from the calls that compute the mask.

Exporters compute masks from positions: a query at position p sees the keys c with p - c in some
range, 0 to infinity for a causal mask, 0 to w - 1 for a window of w keys. The calls are followed
from the mask to the position that the program is given, so nothing is assumed about their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from webpte.engine.format.vulkan import IntValue
from webpte.engine.graph.graph import Call, Graph, Tensor
from webpte.engine.rewrite.dataflow import Dataflow

ARANGE, WHERE = "aten.arange.start_step", "aten.where.self"
UNSQUEEZE = "aten.unsqueeze_copy.default"
SUM = {"aten.add.Tensor": 1, "aten.sub.Tensor": -1}
COMPARED = ("lt", "le", "gt", "ge")
BOTH = ("aten.bitwise_and.Tensor", "aten.logical_and.default")
EITHER = ("aten.bitwise_or.Tensor", "aten.logical_or.default")
NOT = ("aten.bitwise_not.default", "aten.logical_not.default")


@dataclass(frozen=True)
class RelativeKeys:
    """The keys that are `low` to `high` positions before a query; `others`: all keys but these."""

    low: float
    high: float
    others: bool = False

    @property
    def inverse(self) -> RelativeKeys:
        if not self.others and self.low == -math.inf:
            return RelativeKeys(self.high + 1, math.inf)
        if not self.others and self.high == math.inf:
            return RelativeKeys(-math.inf, self.low - 1)
        return replace(self, others=not self.others)

    def and_(self, other: RelativeKeys) -> RelativeKeys | None:
        """Return the intersection of two key ranges, or None if it is not a range."""
        if self.others or other.others:
            return None
        return RelativeKeys(max(self.low, other.low), min(self.high, other.high))

    def or_(self, other: RelativeKeys) -> RelativeKeys | None:
        """Return the union of two key ranges, or None if it is not a range."""
        neither = self.inverse.and_(other.inverse)
        return None if neither is None else neither.inverse


@dataclass(frozen=True)
class AffinePositions:
    """An integer rows * query position + columns * key position + more, per element."""

    rows: int = 0
    columns: int = 0
    more: int = 0

    def plus(self, other: AffinePositions, sign: int) -> AffinePositions:
        return AffinePositions(
            self.rows + sign * other.rows,
            self.columns + sign * other.columns,
            self.more + sign * other.more,
        )


class VisibleKeys:
    """Reader of masks (tokens, positions) of a graph whose first token is at position `start`."""

    def __init__(self, graph: Graph, scalars: Mapping[int, float], start: int, keys: int) -> None:
        """Take `scalars`, the constants of a single number, and the number of `keys`."""
        self._graph = graph
        self._flow = Dataflow.of(graph)
        self._scalars = scalars
        self._start = start
        self._keys = keys

    def seen(self, mask: int) -> RelativeKeys | None:
        """Return the keys for which a boolean tensor is true, if they are known."""
        call = self._writer(mask)
        if call is None:
            return None
        if call.name in NOT:
            inner = self.seen(call.args[0])
            return None if inner is None else inner.inverse
        if call.name in (*BOTH, *EITHER):
            one, other = (self.seen(i) for i in call.args[:2])
            if one is None or other is None:
                return None
            return one.and_(other) if call.name in BOTH else one.or_(other)
        return self._compared(call)

    def shown(self, mask: int) -> RelativeKeys | None:
        """Return the keys that an added mask of 0 and -inf does not hide."""
        call = self._writer(mask)
        if call is None or call.name != WHERE:
            return None
        values = [self._scalars.get(i) for i in call.args[1:3]]
        seen = self.seen(call.args[0])
        if seen is None or values not in ([0.0, -math.inf], [-math.inf, 0.0]):
            return None
        return seen if values[0] == 0 else seen.inverse

    def _compared(self, call: Call) -> RelativeKeys | None:
        """Return the keys for which a comparison is true."""
        name = call.name.removeprefix("aten.").partition(".")[0]
        if name not in COMPARED:
            return None
        left, right = (self._numbers(i) for i in call.args[:2])
        if left is None or right is None:
            return None
        found = left.plus(right, -1)
        # the comparison is turned round: -x < 0 is x > 0
        if (found.rows, found.columns) == (-1, 1):
            found = AffinePositions().plus(found, -1)
            name = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[name]
        if (found.rows, found.columns) != (1, -1) or not self._is_mask(call.args[-1]):
            return None
        bound = -found.more
        return {
            "lt": RelativeKeys(-math.inf, bound - 1),
            "le": RelativeKeys(-math.inf, bound),
            "gt": RelativeKeys(bound + 1, math.inf),
            "ge": RelativeKeys(bound, math.inf),
        }[name]

    def _is_mask(self, value_id: int) -> bool:
        dims = self._graph.tensor(value_id).dims
        return len(dims) == 2 and dims[1] == self._keys

    def _numbers(self, value_id: int) -> AffinePositions | None:
        """Return a value as a sum of query positions, key positions and a number, or None."""
        value = self._graph.value(value_id)
        if isinstance(value, IntValue):
            return AffinePositions(more=value.value)
        if value_id in self._scalars:
            number = self._scalars[value_id]
            return AffinePositions(more=int(number)) if number == int(number) else None
        call = self._writer(value_id)
        if call is None:
            return None
        if call.name == UNSQUEEZE:
            return self._spread(call)
        if call.name not in SUM or self._int(call.args[2]) != 1:
            return None
        left, right = (self._numbers(i) for i in call.args[:2])
        return None if left is None or right is None else left.plus(right, SUM[call.name])

    def _spread(self, call: Call) -> AffinePositions | None:
        """Return positions of queries as a column, or positions of keys as a row."""
        source, dims = call.args[0], self._graph.tensor(call.args[-1]).dims
        if len(dims) != 2:
            return None
        if dims[0] == 1 and self._int(call.args[1]) == 0:
            return AffinePositions(columns=1) if self._counts(source, self._keys) else None
        added = self._writer(source) if self._int(call.args[1]) == 1 else None
        if added is None or added.name != "aten.add.Tensor" or self._int(added.args[2]) != 1:
            return None
        pair = added.args[:2]
        others = [i for i in pair if i != self._start]
        given = len(others) == 1 and self._counts(others[0], None)
        return AffinePositions(rows=1) if given else None

    def _counts(self, value_id: int, count: int | None) -> bool:
        """Return whether a tensor is 0, 1, 2, .. up to a count, or to the live number of tokens."""
        call = self._writer(value_id)
        if call is None or call.name != ARANGE:
            return False
        begins = self._int(call.args[0]) == 0 and self._int(call.args[2]) == 1
        if count is not None:
            return begins and self._int(call.args[1]) == count
        length = self._flow.writers.get(call.args[1], ())
        names = {self._graph.calls[index].name for index in length}
        return begins and (names == {"sym_size.int"} or self._int(call.args[1]) is not None)

    def _writer(self, value_id: int) -> Call | None:
        writers = self._flow.writers.get(value_id, ())
        steady = len(writers) == 1 and value_id not in self._flow.volatile
        if not steady or not isinstance(self._graph.value(value_id), Tensor):
            return None
        return self._graph.calls[writers[0]]

    def _int(self, value_id: int) -> int | None:
        value = self._graph.value(value_id)
        return value.value if isinstance(value, IntValue) else None
