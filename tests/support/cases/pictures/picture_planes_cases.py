"""Cases of planes of a picture, and an oracle that looks up pixel by pixel."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import Given, RowCase, normal

PLANES = "webpte.picture_planes.default"


def oracle(pixels: Array, table: Array, top: int, left: int, height: int, width: int) -> Array:
    made = np.zeros((3, height, width))
    for plane, row, column in np.ndindex(*made.shape):
        y, x = top + row, left + column
        inside = 0 <= y < pixels.shape[0] and 0 <= x < pixels.shape[1]
        made[plane, row, column] = table[plane, pixels[y, x, plane] if inside else 256]
    return made


def picture(height: int, width: int) -> Array:
    return np.random.default_rng(height * 100 + width).integers(
        0, 256, (height, width, 4), np.uint8
    )


def planes(rows: int, columns: int, *part: int, label: str = "") -> RowCase:
    given: tuple[Given, ...] = (picture(rows, columns), normal((3, 257), rows + columns), *part)
    return RowCase(PLANES, given, oracle, rtol=0, atol=0, label=label)


PICTURE_PLANES_CASES: list[RowCase] = [
    planes(5, 7, 0, 0, 5, 7, label="all of it"),
    planes(11, 13, 3, 2, 5, 7, label="inside"),
    planes(3, 5, -2, -1, 8, 7, label="around"),
    planes(3, 5, 2, 4, 3, 3, label="a corner"),
    planes(3, 5, 7, -9, 2, 3, label="beside"),
    planes(1, 1, 0, 0, 1, 1, label="one pixel"),
    planes(67, 31, 1, 0, 61, 29, label="several workgroups"),
    planes(3, 5, 0, 0, 0, 4, label="nothing"),
    RowCase(
        PLANES,
        (picture(9, 8), normal((3, 257)), 1, -2, 5, 6),
        oracle,
        rtol=0,
        atol=0,
        live=((picture(3, 7), normal((3, 257), 2)), (picture(1, 1), normal((3, 257), 3))),
        label="dynamic",
    ),
]
