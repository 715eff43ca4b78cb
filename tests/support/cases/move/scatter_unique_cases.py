"""Cases of scatters that name every place at most once."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.move.scatter_cases import SRC, scattered
from support.cases.row_cases import RowCase, normal

OP = "et_vk.scatter_src_unique.default"


def places(rows: tuple[int, ...], size: int, count: int) -> Array:
    """Return `count` different places of each row."""
    rng = np.random.default_rng(size + count)
    index = np.zeros((*rows, count), np.int32)
    for at in np.ndindex(*rows):
        index[at] = rng.permutation(size)[:count]
    return index


def arrays(rows: tuple[int, ...], size: int, count: int) -> tuple[Array, Array, Array]:
    return normal((*rows, size)), places(rows, size, count), normal((*rows, count), 3)


def case(
    rows: tuple[int, ...], size: int, count: int, *live: tuple[int, int], dim: int = -1
) -> RowCase:
    x, index, source = arrays(rows, size, count)
    steps = tuple(arrays(rows, *sizes) for sizes in live)
    return RowCase(OP, (x, dim, index, source), scattered(SRC), live=steps, rtol=0, atol=0)


X = normal((3, 5))
FEWER_ROWS = (X, 1, places((2,), 5, 4), normal((2, 4), 3))
LARGER_SOURCE = (X, 1, places((3,), 5, 4), normal((4, 6), 3))

SCATTER_UNIQUE_CASES = [
    case((), 1, 1),
    case((), 7, 5, dim=0),
    case((3,), 11, 11, dim=1),
    case((1, 1), 2621, 409, dim=2),
    case((2, 3), 5, 3),
    case((3,), 5, 0),
    case((0,), 5, 3),
    case((3,), 9, 8, (9, 1), (4, 4), (1, 1), (9, 8)),
    *(RowCase(OP, args, scattered(SRC), rtol=0, atol=0) for args in (FEWER_ROWS, LARGER_SOURCE)),
]
