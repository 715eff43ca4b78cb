"""Cases of Hadamard transforms, by matrices."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

OP = "webpte.hadamard.default"

# The first rows of the circulants of order 7, in Williamson's arrangement.
BLOCKS = ("+------", "++----+", "+-+--+-", "+--++--")
ARRANGED = ("+0 +1 +2 +3", "-1 +0 -3 +2", "-2 +3 +0 -1", "-3 -2 +1 +0")


def sylvester(size: int) -> Array:
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def williamson() -> Array:
    matrix = np.zeros((28, 28))
    for row, column in np.ndindex(28, 28):
        block = ARRANGED[row // 7].split()[column // 7]
        sign = BLOCKS[int(block[1])][(column - row) % 7]
        matrix[row, column] = (1 if block[0] == "+" else -1) * (1 if sign == "+" else -1)
    assert (matrix @ matrix.T == 28 * np.eye(28)).all()
    return matrix


def transformed(x: Array) -> Array:
    if not x.size or not x.ndim:
        return x
    size = x.shape[-1]
    outer = 28 if size % 28 == 0 else 1
    inner = size // outer
    rows = x.reshape(-1, outer, inner) @ sylvester(inner) / np.sqrt(inner)
    return (williamson() @ rows if outer == 28 else rows).reshape(x.shape)


def case(*dims: int, live: tuple[tuple[int, ...], ...] = ()) -> RowCase:
    steps = tuple((normal(sizes),) for sizes in live)
    return RowCase(OP, (normal(dims),), transformed, live=steps, rtol=1e-5, atol=2e-5)


HADAMARD_CASES = [
    *(case(*dims) for dims in ((1,), (3, 1), (5, 2), (2, 3, 8), (3, 64), (2, 128), (1, 4096))),
    *(case(*dims) for dims in ((28,), (2, 56), (1, 3, 448), (1, 14336), (0, 8), (3, 0))),
    RowCase(OP, (np.full((), 2.5, np.float32),), transformed),
    case(5, 16, live=((1, 16), (4, 16))),
]
