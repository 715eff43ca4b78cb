"""Cases of elements written by indices, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import Const, LiveCase
from support.cases.move.indexing_cases import indices, rows
from support.cases.row_cases import normal

Dims = tuple[int, ...]
SRC, VALUE, ADD = "aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default"
PUT = "aten.index_put.default"


def scattered(op: str) -> Any:
    def expect(x: Array, dim: int, index: Array, source: Any) -> Array:
        result = np.atleast_1d(x).astype(np.float64)
        places = np.atleast_1d(index)
        for place in np.ndindex(*places.shape):
            target = list(place)
            target[dim] = int(places[place])
            value = source if op == VALUE else np.atleast_1d(source)[place]
            result[tuple(target)] = value + (result[tuple(target)] if op == ADD else 0)
        return result.reshape(x.shape)

    return expect


def scatter(
    op: str, dims: Dims, dim: int, at: Dims, more: int = 0, constant: bool = False
) -> LiveCase:
    size = (dims or (1,))[dim]
    index = rows(size, at)
    source: Any = -2.5 if op == VALUE else normal(tuple(n + more for n in at), 3)
    args = (normal(dims), dim, Const(index) if constant else index, source)
    return LiveCase(op, [args], scattered(op), out="float32", exact=False, rtol=1e-6)


def put(x: Array, listed: list[Array | None], values: Array, accumulate: bool) -> LiveCase:
    def expect(x: Array, listed: list[Array | None], values: Array, accumulate: bool) -> Array:
        result = x.astype(np.float64)
        key = tuple(slice(None) if a is None else a for a in listed)
        numbers = np.arange(x.size).reshape(x.shape)[key]  # which element each value goes to
        flat = result.reshape(-1)
        for place, value in zip(
            numbers.reshape(-1), np.broadcast_to(values, numbers.shape).reshape(-1), strict=True
        ):
            flat[place] = value + (flat[place] if accumulate else 0)
        return result

    args = (x, listed, values, accumulate)
    return LiveCase(PUT, [args], expect, out="float32", exact=False, rtol=1e-6)


SHAPES: tuple[tuple[Dims, int, Dims], ...] = (
    ((7,), 0, (5,)),
    ((7,), 0, (40,)),
    ((), 0, ()),
    ((5, 7), 0, (3, 7)),
    ((5, 7), 1, (5, 11)),
    ((5, 7), -1, (2, 3)),
    ((3, 5, 2), 1, (3, 9, 1)),
    ((3, 5), 0, (0, 5)),
    ((0, 5), 1, (0, 3)),
)

PUT_SHAPES: tuple[tuple[Dims, list[Dims | None], Dims], ...] = (
    ((7,), [(3,)], (3,)),
    ((7,), [(3,)], ()),
    ((5, 7), [(4,)], (4, 7)),
    ((5, 7), [None, (4,)], (5, 4)),
    ((5, 7), [None, (4,)], (4,)),
    ((5, 7), [(4,), (4,)], (4,)),
    ((5, 7), [(3, 1), (4,)], (3, 4)),
    ((3, 5, 7), [None, (2, 3)], (3, 2, 3, 7)),
    ((3, 5, 7), [(4,), None, (4,)], (4, 5)),
    ((2, 3, 5, 7), [None, (4,), (4,)], (4, 7)),
    ((2, 3, 4, 5, 2), [(6,), (6,), (1,), (6,)], (6, 2)),
    ((5, 7), [(0,)], (0, 7)),
)

SCATTER_CASES = [
    *(scatter(op, *row) for op in (SRC, VALUE, ADD) for row in SHAPES),
    *(scatter(op, (5, 7), 0, (3, 4), more=2) for op in (SRC, ADD)),
    scatter(ADD, (5, 7), 1, (5, 20), constant=True),
    *(
        put(
            normal(dims),
            [None if at is None else indices(dims[i], at) for i, at in enumerate(listed)],
            normal(values, 3),
            accumulate,
        )
        for dims, listed, values in PUT_SHAPES
        for accumulate in (False, True)
    ),
    LiveCase(
        ADD,
        [
            (normal((size, 5)), 0, rows(size, (count, 5)), normal((count, 5), 3))
            for size, count in ((9, 40), (3, 7), (1, 1), (9, 40))
        ],
        scattered(ADD),
        out="float32",
        exact=False,
        rtol=1e-6,
    ),
]
