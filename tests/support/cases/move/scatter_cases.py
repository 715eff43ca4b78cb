"""Cases of elements written by indices, one after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import Const, LiveCase
from support.cases.move.indexing_cases import indices, rows
from support.cases.row_cases import normal

Dims = tuple[int, ...]
SRC, VALUE, ADD = "aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default"
PUT, REDUCE = "aten.index_put.default", "aten.scatter_reduce.two"
INDEX_ADD, COPY, FILL = (
    "aten.index_add.default",
    "aten.index_copy.default",
    "aten.index_fill.int_Scalar",
)


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


def combined(reduce: str, values: list[float]) -> float:
    """Combine the values of a place in float64; NaN wins over all others."""
    if reduce in ("amax", "amin"):
        nans = [value for value in values if value != value]
        return nans[0] if nans else max(values) if reduce == "amax" else min(values)
    if reduce == "prod":
        return math.prod(values)
    return math.fsum(values) / (len(values) if reduce == "mean" else 1)


def reduced(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool
) -> Array:
    result, places = np.atleast_1d(x).astype(np.float64), np.atleast_1d(index)
    found: dict[tuple[int, ...], list[float]] = {}
    for place in np.ndindex(*places.shape):
        target = list(place)
        target[dim] = int(places[place])
        own = [float(result[tuple(target)])] if include_self else []
        found.setdefault(tuple(target), own).append(float(np.atleast_1d(source)[place]))
    for at, values in found.items():
        value = combined(reduce, values)
        result[at] = math.floor(value) if x.dtype.kind == "i" else value
    return result.reshape(x.shape)


def whole_numbers(dims: Dims, seed: int) -> Array:
    return np.random.default_rng(seed).integers(-9, 9, dims).astype(np.int32)


def reduction(
    reduce: str, include_self: bool, dims: Dims, dim: int, at: Dims, whole: bool = False
) -> LiveCase:
    numbers = whole_numbers if whole else normal
    args = (numbers(dims, 1), dim, rows((dims or (1,))[dim], at), numbers(at, 3))
    out = "int32" if whole else "float32"
    given = (*args, reduce, include_self)
    return LiveCase(REDUCE, [given], reduced, out=out, exact=False, rtol=2e-6)


def with_odd_values() -> LiveCase:
    """NaN, infinities and a place without a value."""
    x, index = normal((4, 3)), np.zeros((4, 3), np.int32)
    source = normal((4, 3), 3)
    source[0, 0], source[1, 1], x[2, 2] = np.nan, np.inf, np.nan
    args = (x, 0, index, source, "amax", True)
    return LiveCase(REDUCE, [args], reduced, out="float32", exact=False)


def by_row(op: str, dims: Dims, dim: int, index: Array, number: float = 1.0) -> LiveCase:
    """A row of indices along a dim; `number` is index_add's factor, or index_fill's value."""

    taken = list(dims or (1,))
    taken[dim] = index.size

    def expect(x: Array, dim: int, index: Array, *given: Any) -> Array:
        result = np.atleast_1d(x).astype(np.float64)
        parts = np.moveaxis(result, dim, 0)
        source = np.moveaxis(np.broadcast_to(given[0], taken), dim, 0)
        for number, place in enumerate(np.atleast_1d(index).tolist()):
            if op in (COPY, FILL):
                parts[place] = source[number]
            else:
                parts[place] += source[number] * given[1]
        return result.reshape(x.shape)

    shape = tuple(taken) if dims else ()
    more: tuple[Any, ...] = {
        FILL: (number,),
        COPY: (normal(shape, 3),),
        INDEX_ADD: (normal(shape, 3), number),
    }[op]
    args = (normal(dims), dim, index, *more)
    return LiveCase(op, [args], expect, out="float32", exact=False, rtol=2e-6)


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
    *(
        reduction(reduce, include_self, *shape)
        for reduce in ("sum", "mean", "prod", "amax", "amin")
        for include_self in (True, False)
        for shape in (((7,), 0, (5,)), ((5, 7), 1, (5, 11)), ((3, 5, 2), 1, (3, 9, 1)))
    ),
    *(
        reduction(reduce, False, (5, 7), 0, (3, 7), whole=True)
        for reduce in ("sum", "mean", "prod", "amax", "amin")
    ),
    reduction("mean", True, (), 0, ()),
    reduction("sum", False, (0, 5), 1, (0, 3)),
    with_odd_values(),
    LiveCase(
        ADD,
        [(whole_numbers((5, 7), 1), 0, rows(5, (9, 7)), whole_numbers((9, 7), 3))],
        scattered(ADD),
        out="int32",
        exact=False,
    ),
    # Those with sorted indices.
    reduction("sum", True, (3, 211, 67), 1, (3, 257, 66)),
    reduction("amax", False, (2100, 67), 0, (300, 67)),
    reduction("mean", False, (3, 5, 9000), 2, (3, 4, 700)),
    reduction("sum", True, (9000,), 0, (1500,), whole=True),
    scatter(SRC, (67, 2100), -1, (65, 300), more=1),
    scatter(VALUE, (67, 2100), -1, (65, 300)),
    LiveCase(
        ADD,
        [
            (normal((size, 67)), 0, rows(size, (count, 67)), normal((count, 67), 3))
            for size, count in ((1100, 300), (7, 3), (1100, 299), (1, 300))
        ],
        scattered(ADD),
        out="float32",
        exact=False,
        rtol=2e-5,
    ),
    *(
        by_row(op, dims, dim, index, number)
        for op, number in ((INDEX_ADD, -0.5), (INDEX_ADD, 1.0), (COPY, 0.0), (FILL, 2.5))
        for dims, dim, index in (
            ((7,), 0, rows(7, 5)),
            ((5, 7), 1, rows(7, 3)),
            ((3, 5, 2), -2, rows(5, 9)),
            ((5, 3), 0, rows(5, 0)),
            ((), 0, rows(1, ())),
            ((1000, 67), 0, rows(1000, 70)),
        )
    ),
    by_row(FILL, (5, 7), 1, indices(7, 4), -1.5),
]
