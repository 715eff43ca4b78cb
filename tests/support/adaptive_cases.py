"""Cases of pools to a given size, one window after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases import Array
from support.row_cases import RowCase, normal


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


ADAPTIVE_CASES = [
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
