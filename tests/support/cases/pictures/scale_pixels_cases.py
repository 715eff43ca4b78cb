"""Cases of scaled pictures, and an oracle that sums pixel by pixel in Python's integers."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase

SCALE = "webpte.scale_pixels.default"


def oracle(pixels: Array, starts: Array, weights: Array, dim: int) -> Array:
    """Sum in Python's integers, which never overflow."""
    along = pixels if dim == 0 else pixels.swapaxes(0, 1)
    made = np.zeros((len(starts), *along.shape[1:]), np.uint8)
    for at, start in enumerate(starts.tolist()):
        for place in np.ndindex(*along.shape[1:]):
            total = 1 << 21
            for tap, weight in enumerate(weights[at].tolist()):
                total += weight * int(along[(min(max(start + tap, 0), len(along) - 1), *place)])
            made[(at, *place)] = min(max(total >> 22, 0), 255)
    return made if dim == 0 else made.swapaxes(0, 1)


def drawn(height: int, width: int, size: int, taps: int, dim: int) -> tuple[Array, Array, Array]:
    """Random pixels, and weights of a sum of one, of which some are negative."""
    random = np.random.default_rng(height * 1000 + width * 10 + size + taps)
    shares = random.normal(1 / taps, 1 / taps, (size, taps))
    shares[:, -1] += 1 - shares.sum(axis=1)
    starts = random.integers(-1, (height, width)[dim], size)
    return (
        random.integers(0, 256, (height, width, 4), np.uint8),
        starts.astype(np.int32),
        np.round(shares * (1 << 22)).astype(np.int32),
    )


def scaled(height: int, width: int, size: int, taps: int, dim: int, label: str = "") -> RowCase:
    given = drawn(height, width, size, taps, dim)
    return RowCase(SCALE, (*given, dim), oracle, outs=("uint8",), label=label)


SCALE_PIXELS_CASES: list[RowCase] = [
    *(
        scaled(7, 11, size, taps, dim)
        for dim in (0, 1)
        for size, taps in ((5, 3), (23, 7), (1, 13))
    ),
    *(scaled(1, 1, 3, 1, dim, "one pixel") for dim in (0, 1)),
    *(scaled(13, 1, 2, 25, dim, "one column") for dim in (0, 1)),
    *(scaled(67, 5, 131, 5, dim, "several workgroups") for dim in (0, 1)),
    RowCase(
        SCALE,
        (*drawn(9, 8, 6, 5, 1), 1),
        oracle,
        outs=("uint8",),
        live=(drawn(3, 7, 4, 2, 1), drawn(9, 1, 1, 5, 1), drawn(5, 8, 6, 5, 1)),
        label="dynamic",
    ),
    RowCase(SCALE, (*drawn(3, 4, 0, 3, 0), 0), oracle, outs=("uint8",), label="no pixels"),
]
