"""Cases of means of bytes: exact sums, then float32 as XNNPACK rounds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8_linear_cases import bytes_of
from support.cases.live_cases import LiveCase, each

MEAN = "webpte.q8_mean.default"
F = np.float32


def expected(out: str) -> Any:
    def expect(x: Array, x_scale: float, x_zero: int, out_scale: float, *rest: int) -> Array:
        zero, low, high = rest
        count = x.shape[-2] * x.shape[-1]
        scale = F(x_scale) / F(out_scale) * (F(1) / F(count))
        offset = F(zero) - F(count * x_zero) * scale

        def one(*at: int) -> int:
            total = sum(int(value) for value in x[at[:-2]].ravel())
            return max(low, min(high, round(float(F(total) * scale + offset))))

        return each((*x.shape[:-2], 1, 1), np.dtype(out), one)

    return expect


def mean(
    shapes: Sequence[Sequence[int]],
    x_zero: int = -7,
    out_scale: float = 0.011,
    *bounds: int,
    types: tuple[str, str] = ("int8", "int8"),
) -> LiveCase:
    """`shapes` of x, one per step."""
    limits = np.iinfo(types[1])
    behind = (0.02, x_zero, out_scale, 5, *(bounds or (limits.min, limits.max)))
    steps = [(bytes_of(shape, types[0]), *behind) for shape in shapes]
    return LiveCase(MEAN, steps, expected(types[1]), types[1], exact=False)


Q8_MEAN_CASES = [
    *(mean([(1, n, 7, 7)]) for n in (1, 2, 3, 4, 5, 67, 0)),
    *(mean([(2, 5, h, w)]) for h, w in ((1, 1), (1, 3), (2, 2), (3, 5), (4, 8), (23, 19))),
    mean([(3, 6, 5, 2)], 127, 0.02, -10, 30),
    mean([(5, 2, 2)], 0, 0.04),
    mean([(3, 3)]),
    mean([(1, 9, 5, 7)], 200, 0.02, types=("uint8", "uint8")),
    mean([(1, 9, 5, 7)], 131, 0.02, types=("uint8", "int8")),
    mean([(2, 7, 6, 6), (1, 7, 6, 6), (2, 7, 3, 5), (0, 7, 6, 6)]),
]
