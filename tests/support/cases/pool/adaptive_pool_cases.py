"""Cases of pools to a given size, one window after the other."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal


def averages(x: Array, sizes: list[int]) -> Array:
    rank = len(sizes)
    out = np.zeros((*x.shape[:-rank], *sizes))
    for place in np.ndindex(*sizes):
        window: Any = tuple(
            slice(math.floor(i * size / count), math.ceil((i + 1) * size / count))
            for i, size, count in zip(place, x.shape[-rank:], sizes, strict=True)
        )
        out[(..., *place)] = x[(..., *window)].mean(axis=tuple(range(-rank, 0)))
    return out


def adaptive(shape: tuple[int, ...], sizes: list[int], *live: tuple[int, ...]) -> RowCase:
    op = f"aten._adaptive_avg_pool{len(sizes)}d.default"
    steps = tuple((normal(dims),) for dims in live)
    return RowCase(op, (normal(shape), sizes), averages, live=steps)


def maxima(x: Array, sizes: list[int]) -> tuple[Array, Array]:
    """The first of equals, but the last NaN."""
    rank = len(sizes)
    inner = x.shape[-rank:]
    values = np.zeros((*x.shape[:-rank], *sizes), x.dtype)
    places = np.zeros(values.shape, np.int64)
    for place in np.ndindex(*sizes):
        starts = [math.floor(i * n / c) for i, n, c in zip(place, inner, sizes, strict=True)]
        ends = [math.ceil((i + 1) * n / c) for i, n, c in zip(place, inner, sizes, strict=True)]
        for channel in np.ndindex(*x.shape[:-rank]):
            best = -1
            for at in itertools.product(*map(range, starts, ends)):
                value = x[(*channel, *at)]
                number = int(np.ravel_multi_index(at, inner))
                if best < 0 or value > x[channel].reshape(-1)[best] or value != value:
                    best = number
            values[(*channel, *place)] = x[channel].reshape(-1)[best]
            places[(*channel, *place)] = best
    return values, places


def largest(x: Array, sizes: list[int], *live: tuple[int, ...]) -> RowCase:
    op = f"aten.adaptive_max_pool{len(sizes)}d.default"
    steps = tuple((normal(dims),) for dims in live)
    return RowCase(op, (x, sizes), maxima, outs=("float32", "int32"), live=steps)


def odd(*shape: int) -> Array:
    """Equals, infinities, and NaNs in some windows."""
    x = np.round(normal(shape))
    x.reshape(-1)[::11], x.reshape(-1)[5::13] = -np.inf, np.nan
    return x


ADAPTIVE_CASES = [
    largest(normal((2, 3, 7, 5)), [3, 2]),
    largest(normal((3, 7, 5)), [7, 5]),
    largest(normal((1, 2, 3, 4)), [7, 7]),
    largest(odd(2, 3, 9, 8), [4, 3]),
    largest(np.full((1, 1, 3, 3), -np.inf, np.float32), [2, 2]),
    largest(normal((2, 3, 1, 1)), [1, 1]),
    largest(normal((0, 3, 7, 5)), [3, 2]),
    largest(normal((2, 3, 7, 5)), [0, 2]),
    largest(normal((1, 3, 5, 6, 7)), [2, 3, 4]),
    largest(odd(3, 4, 5, 6), [1, 2, 1]),
    largest(normal((2, 3, 17, 15)), [3, 4], (1, 3, 9, 7), (2, 3, 1, 1), (2, 3, 17, 15)),
    adaptive((2, 3, 7), [1]),
    adaptive((2, 3, 7), [3]),
    adaptive((3, 5), [8]),
    adaptive((2, 3, 7, 5), [1, 1]),
    adaptive((2, 3, 7, 5), [3, 2]),
    adaptive((3, 7, 5), [7, 5]),
    adaptive((1, 5, 13, 11), [6, 6]),
    adaptive((1, 2, 3, 4), [7, 7]),
    adaptive((1, 2, 40, 41), [3, 5]),
    adaptive((2, 3, 1, 1), [2, 3]),
    adaptive((0, 3, 7, 5), [3, 2]),
    adaptive((1, 3, 5, 6, 7), [2, 3, 4]),
    adaptive((3, 4, 5, 6), [1, 1, 1]),
    adaptive((2, 3, 17, 15), [3, 4], (1, 3, 9, 7), (2, 3, 1, 1), (2, 3, 17, 15)),
]
