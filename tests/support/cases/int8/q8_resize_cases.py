"""Cases of resized bytes: weights in steps of 1 / 2048, then exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8_linear_cases import bytes_of
from support.cases.live_cases import LiveCase, each

RESIZE = "webpte.q8_resize_bilinear2d.default"
F = np.float32


def place(out: int, size: int, outs: int, align: bool, legacy: bool) -> tuple[int, int, Fraction]:
    """The inputs before and after an output, and the weight of the latter."""
    less = int(align and outs != 1)
    scale = F(size - less) / F(outs - less)
    at = F(out) * scale
    if not align and not legacy:
        at = at + (F(0.5) * scale - F(0.5))
    at = min(max(at, F(0)), F(size - 1))
    before = int(at)
    return before, min(before + 1, size - 1), Fraction(round(float(at - F(before)) * 2048), 2048)


def resized(x: Array, sizes: list[int], align: bool, legacy: bool) -> Array:
    def one(b: int, c: int, y: int, w: int) -> int:
        rows = place(y, x.shape[2], sizes[0], align, legacy)
        columns = place(w, x.shape[3], sizes[1], align, legacy)
        found = Fraction(0)
        for i, of_row in ((rows[0], 1 - rows[2]), (rows[1], rows[2])):
            for j, of_column in ((columns[0], 1 - columns[2]), (columns[1], columns[2])):
                found += of_row * of_column * int(x[b, c, i, j])
        return math.floor(found + Fraction(1, 2))

    return each((*x.shape[:2], *sizes), x.dtype, one)


def resize(
    shapes: Sequence[Sequence[int]],
    sizes: Sequence[int],
    align: bool = False,
    legacy: bool = False,
    dtype: str = "int8",
) -> LiveCase:
    """`shapes` of x, one per step."""
    steps = [(bytes_of(shape, dtype), list(sizes), align, legacy) for shape in shapes]
    return LiveCase(RESIZE, steps, resized, dtype, exact=False)


Q8_RESIZE_CASES = [
    *(
        resize([(1, 3, 5, 7)], sizes, align, legacy)
        for sizes in ((5, 7), (11, 13), (3, 2), (1, 1), (10, 14))
        for align, legacy in ((False, False), (True, False), (False, True))
    ),
    resize([(2, 3, 1, 1)], (3, 5)),
    resize([(2, 3, 1, 4)], (1, 7), True),
    resize([(1, 5, 6, 6)], (9, 9), dtype="uint8"),
    resize([(2, 3, 5, 5), (1, 3, 5, 5), (1, 3, 2, 7), (0, 3, 5, 5)], (7, 3)),
]
