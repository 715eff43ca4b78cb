"""Cases of caches that get new rows: at a position, and at indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal
from support.write.pte_writer import GraphWriter, write_pte

AT_POSITION = "webpte.updated_cache.default"
AT_INDICES = "webpte.updated_cache_with_indices.default"


def at_position(value: Array, cache: Array, start: int) -> Array:
    result = cache.copy()
    for token in range(value.shape[1]):
        result[:, start + token] = value[:, token]
    return result


def at_indices(value: Array, cache: Array, start: int, indices: Array) -> Array:
    result = cache.copy()
    for batch, token in np.ndindex(*indices.shape):
        result[batch, indices[batch, token]] = value[batch, token]
    return result


def arrays(batch: int, tokens: int, positions: int, heads: int, size: int) -> tuple[Array, Array]:
    return normal((batch, tokens, heads, size)), normal((batch, positions, heads, size), 3)


def places(dims: tuple[int, ...], first: int) -> Array:
    """Return places in a ring; a batch starts where the previous batch ends."""
    batch, tokens, positions = dims[:3]
    rows = first + np.arange(batch)[:, None] * tokens + np.arange(tokens)
    return (rows % positions).astype(np.int32)


def position_case(dims: tuple[int, ...], start: int, *live: tuple[int, ...]) -> RowCase:
    steps = tuple(arrays(*sizes) for sizes in live)
    args = (*arrays(*dims), start)
    return RowCase(AT_POSITION, args, at_position, live=steps, rtol=0, atol=0)


def index_case(dims: tuple[int, ...], indices: Any, *live: tuple[int, ...]) -> RowCase:
    given = places(dims, indices) if isinstance(indices, int) else np.array(indices, np.int32)
    steps = tuple((*arrays(*sizes), places(sizes, 3)) for sizes in live)
    args = (*arrays(*dims), 0, given)
    return RowCase(AT_INDICES, args, at_indices, live=steps, rtol=0, atol=0)


@dataclass(frozen=True)
class InPlaceCase:
    """update_cache_with_indices on a cache of the file, and the cache after each step."""

    heads: int
    size: int
    positions: int
    steps: Sequence[tuple[tuple[int, ...], ...]]  # indices of each batch

    op: ClassVar[str] = "update_cache_with_indices.default"

    def __str__(self) -> str:
        return f"in-place-{self.heads}x{self.size}-of-{self.positions}"

    @property
    def cache(self) -> Array:
        return normal((len(self.steps[0]), self.positions, self.heads, self.size), 3)

    def inputs(self, index: int) -> list[Array]:
        indices = np.array(self.steps[index], np.int32)
        return [normal((*indices.shape, self.heads, self.size), index), indices]

    def program(self) -> bytes:
        g = GraphWriter()
        steps = [self.inputs(index) for index in range(len(self.steps))]
        largest = max(steps, key=lambda step: step[0].size)
        value, indices = (g.tensor(array.shape, str(array.dtype)) for array in largest)
        cache = g.tensor(self.cache.shape, constant=self.cache)
        g.op(self.op, value, cache, g.int(0), indices, g.tensor((1,)))
        out = g.op("aten.clone.default", cache, g.null(), g.tensor(self.cache.shape))
        g.inputs(value, indices)
        g.outputs(out)
        for value_id in (value, indices):
            g.host(value_id, dynamic=True)
        return write_pte(g)

    def check(self, index: int, results: Sequence[Array]) -> None:
        cache = self.cache
        for step in range(index + 1):
            value, indices = self.inputs(step)
            cache = at_indices(value, cache, 0, indices)
        np.testing.assert_array_equal(results[0], cache, err_msg=str(self))


def of_bytes() -> RowCase:
    value, cache = (np.arange(n, dtype=np.int8).reshape(1, -1, 2, 4) for n in (16, 56))
    args = (value, cache + np.int8(50), 0, np.array([[6, 1]], np.int32))
    return RowCase(AT_INDICES, args, at_indices, ("int8",))


def few_bytes(dims: tuple[int, ...], start: int, dtype: str = "int8") -> RowCase:
    """Return a case whose positions are not whole words, such as positions of zero points."""
    batch, tokens, positions, heads, size = dims
    value, cache = (
        (np.arange(batch * count * heads * size) * step % 256)
        .astype(dtype)
        .reshape(batch, count, heads, size)
        for count, step in ((tokens, 37), (positions, 11))
    )
    return RowCase(AT_POSITION, (value, cache, start), at_position, (dtype,))


CACHE_UPDATE_CASES = [
    position_case((1, 1, 1, 1, 1), 0),
    position_case((1, 3, 7, 2, 5), 4),
    position_case((3, 2, 9, 3, 8), 0),
    position_case((1, 0, 7, 2, 5), 0),
    position_case((1, 5, 9, 2, 3), 2, (1, 1, 9, 2, 3), (1, 4, 9, 2, 3)),
    index_case((1, 1, 1, 1, 1), [[0]]),
    index_case((1, 3, 7, 2, 5), 5),
    index_case((2, 4, 9, 3, 8), 7),
    index_case((1, 5, 4, 1, 4), [[0, 2, 0, 3, 0]]),
    index_case((2, 3, 5, 1, 3), [[-1, -5, 2], [4, 4, 4]]),
    index_case((1, 0, 7, 2, 5), 0),
    index_case((1, 5, 9, 2, 3), 6, (1, 1, 9, 2, 3), (1, 4, 9, 2, 3)),
    of_bytes(),
    few_bytes((1, 1, 1, 1, 1), 0),
    few_bytes((1, 1, 9, 3, 1), 4),
    few_bytes((1, 5, 13, 2, 1), 7),
    few_bytes((3, 2, 7, 1, 1), 5, "uint8"),
    few_bytes((3, 7, 7, 1, 3), 0),
    few_bytes((2, 4, 300, 2, 7), 251),
    InPlaceCase(2, 3, 7, [((5, 6, 0),), ((1,),), ((2, 3),), ((-1, 6),)]),
    InPlaceCase(1, 4, 5, [((0, 1), (4, 3)), ((2,), (2,))]),
]
