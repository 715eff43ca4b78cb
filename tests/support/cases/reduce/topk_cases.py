"""Cases of the k largest or smallest elements, one row after the other."""

from __future__ import annotations

import math

import numpy as np

from support.cases.cases import Array
from support.cases.reduce.median_cases import odd
from support.cases.row_cases import RowCase, normal

OP = "aten.topk.default"


def first_of(row: list[float], k: int, largest: bool) -> list[int]:
    """Return the places of the first k: NaN is above all, and equals stay in order."""

    def key(place: int) -> tuple[bool, float]:
        value = row[place]
        high = math.isnan(value)
        number = 0.0 if high else value
        return (not high, -number) if largest else (high, number)

    return sorted(range(len(row)), key=key)[:k]


def topk(x: Array, k: int, dim: int, largest: bool, ordered: bool) -> tuple[Array, Array]:
    moved = np.moveaxis(np.atleast_1d(x), dim, -1)
    places = np.zeros((*moved.shape[:-1], k), np.int32)
    for at in np.ndindex(*places.shape[:-1]):
        places[at] = first_of(moved[at].tolist(), k, largest)
    values = np.take_along_axis(moved, places.astype(np.int64), -1)
    if not x.ndim:
        return values.reshape(()), places.reshape(())
    return np.moveaxis(values, -1, dim), np.moveaxis(places, -1, dim)


def case(x: Array, k: int, dim: int, largest: bool = True, *live: tuple[int, ...]) -> RowCase:
    steps = tuple((odd(*dims),) for dims in live)
    args = (x, k, dim, largest, True)
    return RowCase(OP, args, topk, ("float32", "int32"), live=steps, rtol=0, atol=0)


TOPK_CASES = [
    *(
        case(x, k, dim, largest)
        for largest in (True, False)
        for x, k, dim in (
            (normal((1,)), 1, 0),
            (normal((5, 7)), 3, 1),
            (normal((5, 7)), 5, 0),
            (odd(4, 6, 5), 2, 1),
            (odd(3, 300), 17, -1),
            (odd(300, 3), 300, 0),
            (odd(2, 3, 33, 4), 1, 2),
            (odd(0, 3), 2, 1),
            (odd(2, 3), 0, 1),
            (np.full((2, 5), np.nan, np.float32), 4, 1),
            (np.full((), 2.5, np.float32), 1, 0),
            (odd(1, 2501), 5, 1),
            (odd(2, 1031, 3), 64, 1),
        )
    ),
    case(normal((1, 1, 2048)), 32, -1),
    case(normal((1, 70_001)), 1, 1),
    case(odd(2, 70_001), 300, 1),
    case(odd(1100, 2), 77, 0, False),
    case(odd(1, 3000), 3, 1, True, (1, 2999), (1, 1025), (1, 7)),
    case(odd(5, 8, 3), 2, 1, True, (5, 7, 3), (1, 2, 1), (0, 8, 3), (5, 8, 2)),
]
