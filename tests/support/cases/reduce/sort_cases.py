"""Cases of sorted rows, one row after the other."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.reduce.median_cases import odd
from support.cases.reduce.topk_cases import topk
from support.cases.row_cases import RowCase, normal

FLOATS, INTEGERS = ("float32", "int32"), ("int32", "int32")


def length_of(x: Array, dim: int) -> int:
    return x.shape[dim] if x.ndim else 1


def sort(x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    return topk(x, length_of(x, dim), dim, descending, True)


def stable(x: Array, stable: bool, dim: int, descending: bool) -> tuple[Array, Array]:
    return sort(x, dim, descending)


def argsort(x: Array, stable: bool, dim: int, descending: bool) -> Array:
    return sort(x, dim, descending)[1]


def kth(x: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, Array]:
    ordered, places = sort(x, dim, False)
    if not x.ndim:
        return ordered, places
    found = tuple(np.take(array, [k - 1], dim) for array in (ordered, places))
    one, other = found if keepdim else (array.squeeze(dim) for array in found)
    return one, other


def integers(*shape: int) -> Array:
    """Both ends of the range, and many equals."""
    x = np.random.default_rng(4).integers(-9, 9, shape).astype(np.int32)
    flat = x.reshape(-1)
    flat[2::11], flat[5::13] = 2**31 - 1, -(2**31)
    return x


def case(x: Array, dim: int, descending: bool = False, *live: tuple[int, ...]) -> RowCase:
    steps = tuple((odd(*dims),) for dims in live)
    outs = FLOATS if x.dtype == np.float32 else INTEGERS
    return RowCase(
        "aten.sort.default", (x, dim, descending), sort, outs, live=steps, rtol=0, atol=0
    )


SORT_CASES = [
    *(
        case(x, dim, descending)
        for descending in (False, True)
        for x, dim in (
            (normal((1,)), 0),
            (odd(5, 7), -1),
            (odd(4, 6, 5), 1),
            (odd(300, 3), 0),
            (odd(0, 3), 1),
            (odd(3, 0), 1),
            (np.full((), 2.5, np.float32), 0),
            (np.full((2, 5), np.nan, np.float32), 1),
            (odd(2, 1031), 1),
            (odd(1, 1500, 3), 1),
            (np.ones((1, 2500), np.float32), 1),
            (integers(3, 17), 1),
            (integers(1300), 0),
        )
    ),
    case(odd(70_001), 0),
    case(odd(3, 1400), 1, True, (3, 1399), (1, 1025), (2, 1024), (3, 7), (0, 1400)),
    *(
        RowCase("aten.sort.stable", (odd(*dims), True, 0, True), stable, FLOATS, rtol=0, atol=0)
        for dims in ((9, 2), (1100, 2))
    ),
    *(
        RowCase("aten.argsort.stable", (x, True, -1, False), argsort, ("int32",))
        for x in (odd(3, 40), odd(1, 1200), integers(4, 5))
    ),
    *(
        RowCase("aten.kthvalue.default", (x, k, dim, keepdim), kth, FLOATS, rtol=0, atol=0)
        for x, k, dim, keepdim in (
            (odd(3, 40), 17, 1, False),
            (odd(40, 3), 40, 0, True),
            (odd(1, 1100), 1024, -1, False),
            (np.full((), 2.5, np.float32), 1, 0, True),
        )
    ),
]
