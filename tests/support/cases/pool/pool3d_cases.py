"""Cases of pools of volumes, one window after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

AVERAGE, MAXIMUM = "aten.avg_pool3d.default", "aten.max_pool3d_with_indices.default"
Dims = tuple[int, ...]


def of_three(numbers: list[int] | None, default: list[int]) -> list[int]:
    chosen = numbers or default
    return chosen * 3 if len(chosen) == 1 else chosen


def count_of(size: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    room = (size + 2 * p - d * (k - 1) - 1) / s
    count = (math.ceil(room) if ceil else math.floor(room)) + 1
    return count - 1 if ceil and (count - 1) * s >= size + p else count


def windows(
    sizes: Dims, kernel: list[int], stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Iterator[tuple[Dims, list[Dims]]]:
    """Each output's place, and the places of its taps."""
    k = of_three(kernel, kernel)
    s, p, d = of_three(stride, k), of_three(padding, [0]), of_three(dilation, [1])
    counts = [count_of(*numbers, ceil) for numbers in zip(sizes, k, s, p, d, strict=True)]
    for place in product(*map(range, counts)):
        starts = [o * step - border for o, step, border in zip(place, s, p, strict=True)]
        yield (
            place,
            [
                tuple(a + t * x for a, t, x in zip(starts, tap, d, strict=True))
                for tap in product(*map(range, k))
            ],
        )


def at(place: Dims) -> Any:
    """The key of what all channels have at a place."""
    return (..., *place)


def within(place: Dims, low: Any, high: Any) -> bool:
    return all(a <= v < b for v, a, b in zip(place, low, high, strict=True))


def averages(
    x: Array, kernel: Any, stride: Any, padding: Any, ceil: bool, counted: bool, divisor: int | None
) -> Array:
    sizes, p = x.shape[-3:], of_three(padding, [0])
    found = {}
    for place, taps in windows(sizes, kernel, stride, padding, None, ceil):
        inside = [tap for tap in taps if within(tap, (0, 0, 0), sizes)]
        reach = [n + b for n, b in zip(sizes, p, strict=True)]
        padded = [tap for tap in taps if within(tap, [-b for b in p], reach)]
        count = divisor or len(padded if counted else inside)
        found[place] = np.sum([x[at(tap)] for tap in inside], axis=0) / count
    return gathered(x, found)


def maxima(
    x: Array, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> tuple[Array, Array]:
    sizes = x.shape[-3:]
    values, places = {}, {}
    for place, taps in windows(sizes, kernel, stride, padding, dilation, ceil):
        inside = [tap for tap in taps if within(tap, (0, 0, 0), sizes)]
        numbers = np.array([(d * sizes[1] + h) * sizes[2] + w for d, h, w in inside])
        items = np.stack([x[at(tap)] for tap in inside], -1)
        best = np.argmax(items, axis=-1)
        values[place], places[place] = items.max(-1), numbers[best]
    return gathered(x, values), gathered(x, places)


def gathered(x: Array, found: dict[Dims, Array]) -> Array:
    counts = [max(place[i] for place in found) + 1 for i in range(3)]
    out = np.zeros((*x.shape[:-3], *counts))
    for place, value in found.items():
        out[at(place)] = value
    return out


def average(
    shape: Dims,
    kernel: list[int],
    stride: list[int] | None = None,
    padding: list[int] | None = None,
    ceil: bool = False,
    counted: bool = True,
    divisor: int | None = None,
    *live: Dims,
) -> RowCase:
    args = (normal(shape), kernel, stride, padding, ceil, counted, divisor)
    return RowCase(AVERAGE, args, averages, live=tuple((normal(dims),) for dims in live))


def maximum(
    shape: Dims,
    kernel: list[int],
    stride: list[int] | None = None,
    padding: list[int] | None = None,
    dilation: list[int] | None = None,
    ceil: bool = False,
    *live: Dims,
) -> RowCase:
    args = (normal(shape), kernel, stride, padding, dilation, ceil)
    steps = tuple((normal(dims),) for dims in live)
    return RowCase(MAXIMUM, args, maxima, ("float32", "int32"), live=steps)


VOLUMES_CASES = [
    average((1, 2, 4, 5, 6), [2]),
    average((2, 5, 6, 7), [3, 2, 1], [1, 2, 3]),
    average((1, 2, 5, 6, 7), [3], [2], [1]),
    average((1, 2, 5, 6, 7), [3], [2], [1], False, False),
    average((1, 1, 5, 6, 8), [2], [2], [1], True),
    average((1, 1, 5, 6, 8), [2], [2], [1], True, False),
    average((1, 2, 4, 4, 4), [2], None, None, False, True, 3),
    average((0, 2, 4, 4, 4), [2]),
    average((2, 3, 5, 6, 7), [2], [2], None, False, True, None, (1, 3, 2, 2, 3), (2, 3, 5, 6, 7)),
    maximum((1, 2, 4, 5, 6), [2]),
    maximum((2, 5, 6, 7), [3, 2, 1], [1, 2, 3]),
    maximum((1, 2, 5, 6, 7), [3], [2], [1]),
    maximum((1, 2, 7, 8, 9), [2, 3, 2], [1], [1, 1, 0], [2, 1, 3]),
    maximum((1, 1, 5, 6, 8), [2], [2], [1], None, True),
    maximum((2, 3, 5, 6, 7), [2], [2], None, None, False, (1, 3, 2, 2, 3), (2, 3, 5, 6, 7)),
]
