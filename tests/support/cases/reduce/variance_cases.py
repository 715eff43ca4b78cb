"""Cases of variances, of extremes with their places, and of running sums; loops over rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.reduce.median_cases import odd
from support.cases.reduce.reduce_cases import (
    CHOICES,
    LONG,
    SPECIAL,
    WHOLE,
    by_rows,
    first_largest,
    first_smallest,
    largest,
    mean,
    smallest,
)
from support.cases.row_cases import RowCase, normal

VAR, STD, VAR_MEAN = (f"aten.{name}.correction" for name in ("var", "std", "var_mean"))
EXTREMES = {"aten.max.dim": (largest, first_largest), "aten.min.dim": (smallest, first_smallest)}
CUMSUM = "aten.cumsum.default"


def spread_of(row: list[float], correction: float | None) -> float:
    left = max(len(row) - (1 if correction is None else correction), 0)
    around = mean(row)
    total = math.fsum((v - around) ** 2 for v in row)
    return total / left if left else math.nan if total == 0 or total != total else math.inf


def variance(
    op: str, x: Array, dims: list[int] | None, correction: float | None, keep: bool, **more: Any
) -> RowCase:
    def expect(x: Array, dims: list[int] | None, correction: float | None, keep: bool) -> Any:
        found = by_rows(x, dims, keep, lambda row: spread_of(row, correction))
        if op == VAR:
            return found
        return np.sqrt(found) if op == STD else (found, by_rows(x, dims, keep, mean))

    outs = ("float32",) * (2 if op == VAR_MEAN else 1)
    return RowCase(op, (x, dims, correction, keep), expect, outs, rtol=2e-5, atol=2e-6, **more)


def extreme(op: str, x: Array, dim: int, keep: bool = False, **more: Any) -> RowCase:
    value, place = EXTREMES[op]

    def expect(x: Array, dim: int, keep: bool) -> tuple[Array, Array]:
        return by_rows(x, [dim], keep, value), by_rows(x, [dim], keep, place)

    return RowCase(op, (x, dim, keep), expect, (str(x.dtype), "int32"), **more)


def running(x: Array, dim: int, out: str | None = None, **more: Any) -> RowCase:
    def expect(x: Array, dim: int, _: None) -> Array:
        rows = np.moveaxis(np.atleast_1d(x), dim, -1)
        wide = rows.astype(np.float64 if x.dtype.kind == "f" else np.int64)
        sums = np.zeros_like(wide)
        for place in np.ndindex(*wide.shape):
            before = sums[(*place[:-1], place[-1] - 1)] if place[-1] else 0
            sums[place] = before + wide[place]
        return np.moveaxis(sums, -1, dim).reshape(x.shape)

    how = {"rtol": 1e-5, "atol": 2e-5, **more}
    return RowCase(CUMSUM, (x, dim, None), expect, (out or str(x.dtype),), **how)


def running_product(x: Array, dim: int, **more: Any) -> RowCase:
    def expect(x: Array, dim: int, _: None) -> Array:
        rows = np.moveaxis(np.atleast_1d(x), dim, -1)
        products = np.zeros(rows.shape)
        for place in np.ndindex(*rows.shape):
            products[place] = math.prod(rows[(*place[:-1], slice(place[-1] + 1))].tolist())
        return np.moveaxis(products, -1, dim).reshape(x.shape)

    return RowCase("aten.cumprod.default", (x, dim, None), expect, (str(x.dtype),), **more)


def running_extreme(largest: bool, x: Array, dim: int, **more: Any) -> RowCase:
    def expect(x: Array, dim: int) -> tuple[Array, Array]:
        rows = np.moveaxis(np.atleast_1d(x), dim, -1)
        values, places = np.zeros_like(rows), np.zeros(rows.shape, np.int32)
        for at in np.ndindex(*rows.shape[:-1]):
            best = 0
            for place, value in enumerate(rows[at].tolist()):
                old = rows[at][best]
                better = value >= old if largest else value <= old
                best = place if value != value or (old == old and better) else best
                values[(*at, place)], places[(*at, place)] = rows[at][best], best
        moved = (np.moveaxis(array, -1, dim).reshape(x.shape) for array in (values, places))
        one, other = moved
        return one, other

    op = f"aten.cum{'max' if largest else 'min'}.default"
    return RowCase(op, (x, dim), expect, (str(x.dtype), "int32"), rtol=0, atol=0, **more)


LIVE = tuple((normal(size, i),) for i, size in enumerate(((4, 7, 12), (1, 3, 5), (9, 7, 12))))

VARIANCE_CASES = [
    *(
        variance(op, normal(shape), dims, correction, i % 2 == 0)
        for op in (VAR, STD, VAR_MEAN)
        for i, (shape, dims) in enumerate((*CHOICES[4 if op != VAR else 0 :], *LONG[:1]))
        for correction in ((1, 0, None, 2.0)[i % 4],)
    ),
    variance(VAR, normal((5, 1)), [1], 1, True, label="of one"),
    variance(VAR, normal((5, 1)), [1], 0, True, label="of one"),
    variance(VAR, normal((3, 33)) + 1000, [1], 1, False, label="far from 0"),
    variance(VAR, normal((0, 3)), [1], 1, False),
    variance(VAR_MEAN, normal((9, 7, 12)), [0, 2], 1, True, live=LIVE, label="live"),
]

EXTREME_CASES = [
    *(
        extreme(op, normal(shape), dims[0], i % 2 == 0)
        for op in EXTREMES
        for i, (shape, dims) in enumerate((*CHOICES, *LONG[:3]))
        if dims is not None and len(dims) == 1
    ),
    *(extreme(op, SPECIAL, dim) for op in EXTREMES for dim in (0, 1)),
    *(extreme(op, np.round(normal((6, 301))), 1, label="ties") for op in EXTREMES),
    *(extreme(op, WHOLE.reshape(2, 5), -1) for op in EXTREMES),
    *(extreme(op, WHOLE.astype(np.int8), 0) for op in EXTREMES),
    extreme("aten.max.dim", normal((0, 3)), 1),
    extreme("aten.max.dim", normal((9, 7, 12)), 1, live=LIVE, label="live"),
]

CUMULATIVE_CASES = [
    *(
        running(normal(shape), dim)
        for shape, dim in (
            *(((), 0), ((1,), 0), ((67,), 0), ((5, 7, 11), 0), ((5, 7, 11), 1), ((5, 7, 11), -1)),
            *(((3, 257), 1), ((257, 3), 0), ((0, 3), 1), ((3, 0), 1), ((400, 2), 1)),
        )
    ),
    # Each of 5,000 additions rounds: one thread that adds them all is off by as much.
    running(normal((2, 5000)), 1, atol=3e-4, label="long"),
    running(WHOLE // 100, 0),
    running(np.arange(40, dtype=np.int8).reshape(5, 8), 1, "int32"),
    running(np.arange(40).reshape(5, 8) % 3 == 0, 0, "int32"),
    running(np.array([1, np.inf, 2, -np.inf, 3, np.nan, 1], np.float32), 0, label="special"),
    running(normal((9, 7, 12)), 1, live=LIVE, label="live"),
    *(
        running_product(np.asarray(1 + normal(shape) / 9), dim)
        for shape, dim in (((), 0), ((67,), 0), ((5, 7, 3), 1), ((3, 257), 1), ((0, 3), 1))
    ),
    running_product(WHOLE % 5, 0),
    running_product(1 + normal((9, 7, 12)) / 9, 1, live=LIVE, label="live"),
    *(
        running_extreme(largest, x, dim)
        for largest in (True, False)
        for x, dim in (
            (np.full((), 2.5, np.float32), 0),
            (normal((1,)), 0),
            (odd(67), 0),
            (odd(5, 7, 11), 1),
            (odd(3, 257), -1),
            (odd(400, 2), 0),
            (odd(0, 3), 1),
            (WHOLE, 0),
        )
    ),
    running_extreme(True, normal((9, 7, 12)), 1, live=LIVE, label="live"),
]
