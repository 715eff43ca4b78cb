"""Cases of medians, one row after the other."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

ALL, ALONG = "aten.median.default", "aten.median.dim"


def middle_of(row: list[float]) -> int:
    """The first NaN, or what sorting in place puts in the middle."""
    for place, value in enumerate(row):
        if value != value:
            return place
    ordered = sorted(range(len(row)), key=row.__getitem__)  # equals stay in order
    return ordered[(len(row) - 1) // 2]


def of_all(x: Array) -> Array:
    row = x.reshape(-1).tolist()
    return np.array(row[middle_of(row)])


def along(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    moved = np.moveaxis(np.atleast_1d(x), dim, -1)
    places = np.zeros(moved.shape[:-1], np.int32)
    values = np.zeros(moved.shape[:-1])
    for at in np.ndindex(*places.shape):
        places[at] = middle_of(moved[at].tolist())
        values[at] = moved[at][places[at]]
    if keepdim and x.ndim:
        return np.expand_dims(values, dim), np.expand_dims(places, dim)
    return values, places


def odd(*shape: int) -> Array:
    """Many equals, both zeros, both infinities, and NaNs in some rows."""
    x = np.round(normal(shape))
    flat = x.reshape(-1)
    flat[::7], flat[3::9], flat[4::31], flat[8::41] = -0.0, 0.0, np.inf, -np.inf
    flat[11::97] = np.nan
    return x


def case(x: Array, dim: int, keepdim: bool = False, *live: tuple[int, ...]) -> RowCase:
    outs, steps = ("float32", "int32"), tuple((odd(*dims),) for dims in live)
    return RowCase(ALONG, (x, dim, keepdim), along, outs, live=steps, rtol=0, atol=0)


MEDIAN_CASES = [
    *(
        RowCase(ALL, (x,), of_all, rtol=0, atol=0)
        for x in (normal((1,)), normal((7, 5)), odd(3, 3), odd(300), normal((2, 5000)))
    ),
    RowCase(ALL, (normal((6, 9)),), of_all, live=((odd(6, 8),), (odd(1, 1),)), rtol=0, atol=0),
    RowCase(ALL, (np.full((), 2.5, np.float32),), of_all),
    case(normal((5, 7)), 1),
    case(normal((5, 7)), 0, True),
    case(odd(4, 6, 5), 1),
    case(odd(4, 6, 5), -1, True),
    case(odd(3, 300), 1),
    case(odd(300, 3), 0),
    case(odd(2, 3, 33, 40), 2),
    case(odd(9, 1), 1),
    case(odd(0, 3), 1),
    case(np.full((2, 5), np.nan, np.float32), 1),
    case(np.full((3, 17), -np.inf, np.float32), 1),
    case(odd(5, 8, 3), 1, False, (5, 7, 3), (1, 1, 1), (0, 8, 3), (5, 8, 2)),
]
