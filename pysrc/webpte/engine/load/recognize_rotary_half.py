"""Recognizes rotary embeddings as Hugging Face's models write them out: halves are pairs.

A head x of size D becomes x cos + (-b, a) sin, where a and b are its halves. It is computed with
heads before tokens, so a permutation stands before it, and another after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from webpte.engine.format.vulkan import IntListValue, IntValue, ValueListValue
from webpte.engine.graph.graph import Call, Graph
from webpte.engine.load.recognize_rotary import ADD, CAT, MUL, SLICE, RotaryRecognizer, Rotation
from webpte.engine.load.recognizer import VIEWS
from webpte.engine.shapes import numel

ROTATE_HALF = "et_vk.apply_rotary_emb_hf.default"
NEG, PERMUTE = "aten.neg.default", "aten.permute_copy.default"
SQUEEZE = "aten.squeeze_copy.dims"
FLOATS = ("float32", "float16")
SWAP = (0, 2, 1, 3)  # heads and tokens


def has_half_rotations(graph: Graph) -> bool:
    """Return whether a graph has calls that `HalfRotaryRecognizer` may replace."""
    return {NEG, CAT, SLICE, MUL, ADD, PERMUTE} <= {call.name for call in graph.calls}


class HalfRotaryRecognizer(RotaryRecognizer):
    """A recognizer of rotations of halves, of a query and a key by the same tables."""

    def __init__(self, graph: Graph, scalars: Mapping[int, float]) -> None:
        super().__init__(graph, scalars)
        self._flat: dict[int, int] = {}  # tables [S, D] by the values [1, S, D] that they view

    def _replace(self, first: Rotation, last: Rotation, place: Call) -> None:
        """Put a call that rotates both in the place of an end, with the query first."""
        pair = self._in_order(first, last)
        tables = [self._flat_table(value_id) for value_id in (last.cosines, last.sines)]
        outs = self.add(ValueListValue(tuple(each.end.args[-1] for each in pair)))
        sources = [each.source.args[0] for each in pair]
        self.replaced |= {each.end.index: None for each in pair}
        args = (*sources, *tables, self.add(IntValue(0)), outs)
        self.replaced[place.index] = replace(place, name=ROTATE_HALF, args=args)

    def _flat_table(self, value_id: int) -> int:
        """Return a table [S, D], which is made before the first call that reads [1, S, D]."""
        if value_id not in self._flat:
            call = self.graph.calls[min(self.flow.readers[value_id])]
            table = self.graph.tensor(value_id)
            dims = self.add(IntListValue((0,)))
            flat = self.add(replace(table, id=self.next_id, dims=table.dims[1:], mem_obj_id=None))
            self.put_before(call, Call(0, SQUEEZE, (value_id, dims, flat)))
            self._flat[value_id] = flat
        return self._flat[value_id]

    def _rotation(self, end: Call) -> Rotation | None:
        """Return the rotation whose result a permutation swaps to [B, S, heads, D]."""
        total = self._swapped(end, ADD)
        if total is None or not self.is_plain_sum(total):
            return None
        one, other = (self.writer(value, MUL) for value in total.args[:2])
        if one is None or other is None:
            return None
        return self._from_products(end, one, other) or self._from_products(end, other, one)

    def _swapped(self, call: Call | None, name: str | None = None) -> Call | None:
        """Return the call whose result a permutation swaps, or the permutation without a name."""
        if call is None or call.name != PERMUTE or self.ints(call.args[1]) != SWAP:
            return None
        return call if name is None else self.writer(call.args[0], name)

    def _from_products(self, end: Call, straight: Call, turned: Call) -> Rotation | None:
        """Return the rotation that is the sum of x cos and (-b, a) sin."""
        for x, cosines in (straight.args[:2], straight.args[1::-1]):
            for halves, sines in (turned.args[:2], turned.args[1::-1]):
                source = self._swapped(self.origin(x, PERMUTE))
                tables = [self._base(value_id, end) for value_id in (cosines, sines)]
                if source is None or tables[0] is None or tables[1] is None:
                    continue
                if not self.is_steady(source.args[0], tables[0], tables[1]):
                    continue
                alike = self.dims(source.args[0]) == self.dims(end.args[-1])
                if alike and self._is_only_source(x) and self._is_turned(halves, x):
                    return Rotation(source, tables[0], tables[1], end)
        return None

    def _is_only_source(self, x: int) -> bool:
        """Return whether the product and the two halves are all that read a head."""
        floats = self.graph.tensor(x).dtype.name in FLOATS
        alone = len(self.flow.readers.get(x, ())) == 3 and x not in self.graph.outputs
        return floats and alone

    def _is_turned(self, value_id: int, x: int) -> bool:
        """Return whether a value is (-b, a), for the halves a and b of x."""
        joined = self.writer(value_id, CAT)
        if joined is None or self.ints(joined.args[1]) not in ((3,), (-1,)):
            return False
        parts = self.graph.value_list(joined.args[0])
        negated = self.writer(parts[0], NEG) if len(parts) == 2 else None
        if negated is None:
            return False
        size = self.dims(x)[3]
        return self._is_half(negated.args[0], x, size // 2, size) and self._is_half(
            parts[1], x, 0, size // 2
        )

    def _is_half(self, value_id: int, x: int, begin: int, end: int) -> bool:
        cut = self.writer(value_id, SLICE)
        if cut is None or cut.args[0] != x or self.ints(cut.args[1]) not in ((3,), (-1,)):
            return False
        first, last, step = (self.ints(i) or (-1,) for i in cut.args[2:5])
        size = self.dims(x)[3]
        return (first, step) == ((begin,), (1,)) and size % 2 == 0 and min(last[0], size) == end

    def _base(self, value_id: int, end: Call) -> int | None:
        """Return the tables [1, S, D] that a factor [1, 1, S, D] is a view of."""
        _, tokens, _, size = self.dims(end.args[-1])
        table = self.graph.tensor(value_id)
        if (
            table.dims != (1, 1, tokens, size)
            or table.dtype != self.graph.tensor(end.args[-1]).dtype
        ):
            return None
        while (view := self.origin(value_id, *VIEWS)) is not None:
            value_id = view.args[0]
            if self.dims(value_id) == (1, tokens, size):
                return value_id
            if numel(self.dims(value_id)) != tokens * size:
                return None
        return None
