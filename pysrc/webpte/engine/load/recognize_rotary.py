"""Recognizes rotary embeddings of queries and keys that a file writes out.

ExecuTorch's own Llama rotates neighbours: a view [B, S, heads, D / 2, 2] is cut into its two halves
(a, b), which become a cos - b sin and b cos + a sin, and lie side by side again at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from webpte.engine.format.vulkan import IntListValue, IntValue, ValueListValue
from webpte.engine.graph.graph import Call, Graph
from webpte.engine.load.recognizer import VIEWS, Recognizer, merged
from webpte.engine.shapes import numel

ROTATE, UPDATE = "et_vk.apply_rotary_emb.default", "update_cache.default"
ADD, SUB, MUL = "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"
CAT, SLICE, VIEW = "aten.cat.default", "aten.slice_copy.Tensor", "aten.view_copy.default"


def has_rotations(graph: Graph) -> bool:
    """Return whether a graph has calls that `RotaryRecognizer` may replace."""
    return {SUB, MUL, CAT, SLICE} <= {call.name for call in graph.calls}


@dataclass(frozen=True)
class Rotation:
    """A rotation of x: the view that x is cut from, the tables, and the call with the result."""

    source: Call
    cosines: int
    sines: int
    end: Call


class RotaryRecognizer(Recognizer):
    """A recognizer of rotations of neighbours, of a query and a key by the same tables."""

    def __init__(self, graph: Graph, scalars: Mapping[int, float]) -> None:
        super().__init__(merged(graph), scalars)  # some exports make each view twice

    def run(self) -> Graph:
        waiting: dict[tuple[int, int], Rotation] = {}
        for call in self.graph.calls:
            found = self._rotation(call)
            if found is None:
                continue
            first = waiting.pop((found.cosines, found.sines), None)
            if first is None:
                waiting[found.cosines, found.sines] = found
            elif (place := self._place(first, found)) is not None:
                self._replace(first, found, place)
        return super().run()

    def visit(self, call: Call) -> None:
        """Visit nothing: a rotation is replaced together with its partner, in `run`."""

    def _place(self, first: Rotation, last: Rotation) -> Call | None:
        """Return the end in whose place both can be rotated at once, if there is such an end."""
        one, two = (self.dims(each.end.args[-1]) for each in (first, last))
        if one[:2] != two[:2] or one[3] != two[3]:
            return None
        if last.source.index < first.end.index:
            return first.end
        readers = self.flow.readers.get(first.end.args[-1], ())
        return last.end if all(index > last.end.index for index in readers) else None

    def _replace(self, first: Rotation, last: Rotation, place: Call) -> None:
        """Put a call that rotates both in the place of an end, with the query first."""
        pair = self._in_order(first, last)
        sources = [self._whole(each) for each in pair]
        outs = self.add(ValueListValue(tuple(each.end.args[-1] for each in pair)))
        self.replaced |= {each.end.index: None for each in pair}
        args = (*sources, last.cosines, last.sines, outs)
        self.replaced[place.index] = replace(place, name=ROTATE, args=args)

    def _in_order(self, first: Rotation, last: Rotation) -> tuple[Rotation, Rotation]:
        """Return the rotation of the query, then the rotation of the key."""
        return (first, last) if self._is_key(last) or not self._is_key(first) else (last, first)

    def _is_key(self, rotation: Rotation) -> bool:
        return self.only_reader(rotation.end.args[-1], UPDATE) is not None

    def _whole(self, rotation: Rotation) -> int:
        """Return x as [B, S, heads, D]: the view of pairs becomes a view of whole heads."""
        x = self.graph.tensor(rotation.source.args[-1])
        dims = (*x.dims[:3], x.dims[3] * 2)
        whole = self.add(replace(x, id=self.next_id, dims=dims))
        size = self.graph.value(rotation.source.args[1])
        assert isinstance(size, IntListValue | ValueListValue), "see _pairs"
        if isinstance(size, IntListValue):
            sizes = self.add(IntListValue((*size.items[:3], dims[3])))
        else:
            sizes = self.add(ValueListValue((*size.items[:3], self.add(IntValue(dims[3])))))
        made = replace(rotation.source, args=(rotation.source.args[0], sizes, whole))
        self.replaced[rotation.source.index] = made
        return whole

    def _rotation(self, end: Call) -> Rotation | None:
        """Return the rotation that ends with a view, or None."""
        joined = self.writer(end.args[0], CAT) if end.name == VIEW else None
        if joined is None or len(self.dims(joined.args[-1])) != 5:
            return None
        parts = self.graph.value_list(joined.args[0])
        dims = self.dims(joined.args[-1])
        side_by_side = self.ints(joined.args[1]) in ((4,), (-1,)) and dims[4] == 2
        if not side_by_side or self.dims(end.args[-1]) != (*dims[:3], dims[3] * 2):
            return None
        if len(parts) != 2:
            return None
        difference, total = (
            self._through_views(part, name) for part, name in zip(parts, (SUB, ADD), strict=True)
        )
        if difference is None or total is None:
            return None
        if not self.is_plain_sum(difference) or not self.is_plain_sum(total):
            return None
        a_cos, b_sin = (self.writer(value, MUL) for value in difference.args[:2])
        products = [self.writer(value, MUL) for value in total.args[:2]]
        if a_cos is None or b_sin is None or None in products:
            return None
        return self._of_products(end, a_cos, b_sin, [call for call in products if call])

    def _of_products(
        self, end: Call, a_cos: Call, b_sin: Call, products: list[Call]
    ) -> Rotation | None:
        for a, cosines in (a_cos.args[:2], a_cos.args[1::-1]):
            for b, sines in (b_sin.args[:2], b_sin.args[1::-1]):
                wanted = [{a, sines}, {b, cosines}]
                if [set(call.args[:2]) for call in products] not in (wanted, wanted[::-1]):
                    continue
                pairs = self._pairs(a, b, end)
                tables = [self._table(table, end) for table in (cosines, sines)]
                if pairs is None or tables[0] is None or tables[1] is None:
                    continue
                alike = self.dims(tables[0]) == self.dims(tables[1])
                if alike and self.is_steady(tables[0], tables[1]):
                    return Rotation(pairs, tables[0], tables[1], end)
        return None

    def _pairs(self, a: int, b: int, end: Call) -> Call | None:
        """Return the view that a and b are the first and the second of each pair of.

        The view has the dims of the result, with pairs: no view in between exchanges dims.
        """
        cuts = [self._cut(value) for value in (a, b)]
        if cuts[0] is None or cuts[1] is None or cuts[0].args[0] != cuts[1].args[0]:
            return None
        places = [[self.ints(i) for i in cut.args[1:4]] for cut in cuts if cut is not None]
        axes = {place[0] for place in places}
        if not axes <= {(4,), (-1,)} or [p[1:] for p in places] != [[(0,), (1,)], [(1,), (2,)]]:
            return None
        source = cuts[0].args[0]
        view = self.origin(source, VIEW)
        alone = len(self.flow.readers.get(source, ())) == 2 and source not in self.graph.outputs
        *outer, size = self.dims(end.args[-1])
        halves = (*outer, size // 2)
        if view is None or not alone or self.dims(source) != (*halves, 2):
            return None
        if self.dims(a) != halves or self.dims(b) != halves:
            return None
        sizes = self.graph.value(view.args[1])
        listed = isinstance(sizes, IntListValue | ValueListValue) and len(sizes.items) == 5
        return view if listed else None

    def _cut(self, value_id: int) -> Call | None:
        """Return the slice that a value with a single element of each pair is."""
        readers = self.flow.readers.get(value_id, ())
        if len(readers) != 2 or value_id in self.graph.outputs:
            return None
        view = self.origin(value_id, *VIEWS)
        return None if view is None else self.writer(view.args[0], SLICE)

    def _table(self, value_id: int, end: Call) -> int | None:
        """Return the table [S, D / 2] that a factor [.., S, 1, D / 2] is a view of, or the factor.

        A factor that was cast is a table as well: dims of size 1 do not matter.
        """
        _, tokens, _, size = self.dims(end.args[-1])
        value, table = self.graph.tensor(value_id), value_id
        if value.dims[-3:] != (tokens, 1, size // 2) or numel(value.dims[:-3]) != 1:
            return None
        while (view := self.origin(table, *VIEWS)) is not None:
            table = view.args[0]
            if self.dims(table) == (tokens, size // 2):
                return table
        return value_id

    def _through_views(self, value_id: int, name: str) -> Call | None:
        """Return the call of this name whose result a value is a view of."""
        while (view := self.writer(value_id, *VIEWS)) is not None:
            value_id = view.args[0]
        return self.writer(value_id, name)
