"""Cases of the slicing family: torch's rules, one index after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import WIDTHS, LiveCase, Sym, each, random_bits

INT64_MAX = 2**63 - 1


def sliced(
    x: Array, dim: int = 0, start: float | None = None, end: float | None = None, step: int = 1
) -> Array:
    """torch's rules, index by index."""
    size = x.shape[dim]
    first, last = (int(start or 0), size if end is None else int(end))
    first, last = (v + size if v < 0 else v for v in (first, last))
    taken = [
        i for i in range(size) if max(first, 0) <= i < last and (i - max(first, 0)) % step == 0
    ]
    dims = list(x.shape)
    dims[dim] = len(taken)

    def source(*index: int) -> Any:
        place = list(index)
        place[dim] = taken[place[dim]]
        return x[tuple(place)]

    return each(dims, x.dtype, source)


def selected(x: Array, dim: int, index: float) -> Array:
    dim %= x.ndim
    at = int(index) + (x.shape[dim] if index < 0 else 0)
    dims = [size for d, size in enumerate(x.shape) if d != dim]
    return each(dims, x.dtype, lambda *i: x[(*i[:dim], at, *i[dim:])])


def equal_parts(x: Array, size: int, dim: int = 0) -> list[Array]:
    length = x.shape[dim]
    return split(
        x, [len(range(length)[at : at + size]) for at in range(0, max(length, 1), size)], dim
    )


def split(x: Array, sizes: list[int], dim: int = 0) -> list[Array]:
    ends = np.cumsum(sizes)
    return [
        sliced(x, dim, int(end) - size, int(end)) for size, end in zip(sizes, ends, strict=True)
    ]


SLICES: tuple[tuple[Any, ...], ...] = (
    (0, 1, 4, 1),
    (1, 1, 4, 1),
    (-1, 2, 7, 1),
    (-1, 0, 4, 1),
    (1, -3, -1, 1),
    (0, None, None, 1),
    (1, 0.0, 3.0, 1),
    (1, 1, INT64_MAX, 1),
    (1, -100, 100, 2),
    (2, 1, 8, 3),
    (1, 4, 2, 1),
    (1, 5, 100, 1),
    (0, 100, 200, 1),
    (),
    (1,),
    (2, 4),
    (0, 1, 3),
)
LIVE = "live start"
SLICE_CASES = [
    *(
        LiveCase("aten.slice_copy.Tensor", [(random_bits(shape, dtype), *args)], sliced)
        for dtype in WIDTHS
        for shape in ((5, 5, 8), (7, 6, 9))
        for args in SLICES
    ),
    LiveCase("aten.slice_copy.Tensor", [(random_bits(67), 0, 3, 66, 1)], sliced),
    LiveCase("aten.slice_copy.Tensor", [(random_bits(67, "bool"), 0, 3, 66, 1)], sliced),
    LiveCase("aten.slice_copy.Tensor", [(random_bits((0, 3)), 0, 0, 5, 1)], sliced),
    # A table of angles, sliced at a position that moves while the length stays or changes.
    *(
        LiveCase(
            "aten.slice_copy.Tensor",
            [
                (table, dim, Sym(start), Sym(start + length), 1)
                for start, length in ((0, 5), (1, 5), (6, 5), (2, 3), (10, 1), (7, 4), (3, 0))
            ],
            sliced,
            label=LIVE,
        )
        for table, dim in (
            (random_bits((11, 8)), 0),
            (random_bits((11, 3)), 0),
            (random_bits((3, 11, 4)), 1),
            (random_bits((3, 11)), 1),
            (random_bits((11, 3), "uint8"), 0),
            (random_bits((11, 16), "uint8"), 0),
        )
    ),
    LiveCase(
        "aten.slice_copy.Tensor",
        [
            (random_bits((9, 20, 17)), 1, Sym(s), Sym(e), 2)
            for s, e in ((-20, -1), (-19, 20), (3, 50))
        ],
        sliced,
        label=LIVE,
    ),
    LiveCase(
        "aten.slice_copy.Tensor",
        [(random_bits((n, 3)), 0, -2, INT64_MAX, 1) for n in (7, 2, 1, 4)],
        sliced,
        label="dynamic",
    ),
]
SELECT_CASES = [
    *(
        LiveCase("aten.select_copy.int", [(random_bits((3, 5, 4), dtype), dim, index)], selected)
        for dtype in WIDTHS
        for dim in (0, 1, 2, -1)
        for index in (0, 2, -1, -3, 1.0)
    ),
    LiveCase("aten.select_copy.int", [(random_bits(5), 0, 3)], selected),
    LiveCase("aten.select_copy.int", [(random_bits((1, 0, 3)), 0, 0)], selected),
    LiveCase(
        "aten.select_copy.int",
        [(random_bits((1, n, 8)), 1, -1) for n in (7, 1, 4)],
        selected,
        label="dynamic",
    ),
    *(
        LiveCase(
            "aten.select_copy.int",
            [
                (random_bits((3, n, 4), dtype), 1, Sym(i))
                for n, i in ((7, 0), (7, 6), (7, -7), (3, 2))
            ],
            selected,
            label=LIVE,
        )
        for dtype in WIDTHS
    ),
]
SPLIT_CASES = [
    *(
        LiveCase(
            "aten.split_with_sizes_copy.default", [(random_bits((6, 8, 4), dtype), *args)], split
        )
        for dtype in WIDTHS
        for args in (
            ([2, 3, 1], 0),
            ([4, 4], 1),
            ([1, 3], -1),
            ([0, 8, 0], 1),
            ([6],),
            ([1] * 8, 1),
        )
    ),
    LiveCase(
        "aten.split_with_sizes_copy.default",
        [(random_bits((n, 5)), [2, 3], -1) for n in (6, 1, 3, 0)],
        split,
        label="dynamic",
    ),
    LiveCase(
        "aten.split_with_sizes_copy.default",
        [(random_bits((3, a + b)), [Sym(a), Sym(b)], 1) for a, b in ((4, 4), (0, 5), (3, 1))],
        split,
        label="dynamic",
    ),
]
EQUAL_SPLIT_CASES = [
    *(
        LiveCase("aten.split.Tensor", [(random_bits((6, 7, 4), dtype), *args)], equal_parts)
        for dtype in WIDTHS
        for args in ((2, 0), (3, 1), (7, -2), (9, 1), (1, 2), (4,))
    ),
    LiveCase("aten.split.Tensor", [(random_bits((1,)), 1, 0)], equal_parts),
    LiveCase(
        "aten.split.Tensor",
        [(random_bits((3, n)), 3, 1) for n in (11, 12, 10)],
        equal_parts,
        label="dynamic",
    ),
    LiveCase("aten.split.Tensor", [(random_bits((2, 0)), 3, 1)], equal_parts),
]
SLICING_CASES = EQUAL_SPLIT_CASES + SLICE_CASES + SELECT_CASES + SPLIT_CASES
