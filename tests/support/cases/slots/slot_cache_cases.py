"""Cases of rows that are written to caches with a slot for each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import normal
from support.cases.slots.slot_attention_cases import NO_SLOT, Place, places_of
from support.write.pte_writer import GraphWriter, write_pte

SLOTS, POSITIONS = 3, 7
GIVEN, KNOWN = 5, -1


@dataclass(frozen=True)
class SlotCase:
    """An operator on a cache of the file, and the cache after each step of places."""

    heads: int
    size: int
    steps: Sequence[Sequence[Place]]
    op: str = field(default="webpte.update_slots.default")

    def __str__(self) -> str:
        return f"{self.op}-{self.heads}x{self.size}-{len(self.steps)}-steps"

    @property
    def of_tokens(self) -> bool:
        return "tokens" in self.op

    @property
    def cache(self) -> Array:
        shape = (SLOTS, POSITIONS, self.heads, self.size)
        if self.of_tokens:
            return np.arange(100, 100 + np.prod(shape), dtype=np.int32).reshape(shape)
        return normal(shape, 3)

    def inputs(self, index: int) -> list[Array]:
        rows = self.steps[index]
        if self.of_tokens:
            given = np.where(np.arange(len(rows)) % 2, GIVEN + index, KNOWN)
            return [given.astype(np.int32)[None], places_of(rows)]
        return [normal((1, len(rows), self.heads, self.size), index), places_of(rows)]

    def program(self) -> bytes:
        g = GraphWriter()
        steps = [self.inputs(index) for index in range(len(self.steps))]
        largest = max(steps, key=lambda step: step[0].size)
        given, places = (g.tensor(array.shape, str(array.dtype)) for array in largest)
        cache = g.tensor(self.cache.shape, str(self.cache.dtype), constant=self.cache)
        shape, dtype = (largest[0].shape, "int32") if self.of_tokens else ((1,), "float32")
        first = g.op(self.op, given, cache, places, g.tensor(shape, dtype))
        held = g.tensor(self.cache.shape, str(self.cache.dtype))
        out = g.op("aten.clone.default", cache, g.null(), held)
        g.inputs(given, places)
        g.outputs(*((first, out) if self.of_tokens else (out,)))
        for value_id in (given, places, *((first,) if self.of_tokens else ())):
            g.host(value_id, dynamic=True)
        return write_pte(g)

    def check(self, index: int, results: Sequence[Array]) -> None:
        cache = self.cache
        for step in range(index + 1):
            values, places = self.inputs(step)
            tokens = np.zeros(values.shape, values.dtype)
            for row, (position, slot) in enumerate(places[:, :2]):
                if slot == NO_SLOT:
                    continue
                if not self.of_tokens or values[0, row] != KNOWN:
                    cache[slot, position] = values[0, row]
                tokens[0, row] = cache[slot, position].reshape(-1)[0]
        if self.of_tokens:
            np.testing.assert_array_equal(results[0], tokens, err_msg=str(self))
        np.testing.assert_array_equal(results[-1], cache, err_msg=str(self))


ROWS = [[(0, 0), (6, 2), (3, 1), (4, 1)], [(5, 0)], [(0, NO_SLOT), (1, 2), (0, 2)]]

SLOT_CACHE_CASES = [
    SlotCase(1, 1, ROWS),
    SlotCase(2, 5, ROWS),
    SlotCase(3, 8, ROWS),
    SlotCase(1, 1, ROWS, "webpte.slot_tokens.default"),
]
