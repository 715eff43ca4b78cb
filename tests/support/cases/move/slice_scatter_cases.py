"""Cases of tensors with a part replaced. Expectations are loops over indices."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import WIDTHS, LiveCase, Sym, each, random_bits

SLICE, SELECT = "aten.slice_scatter.default", "aten.select_scatter.default"
Dims = tuple[int, ...]


def sliced(
    x: Array, source: Array, dim: int, start: int | None, end: int | None, step: int = 1
) -> Array:
    dim %= x.ndim
    places = list(range(*slice(start, end, step).indices(x.shape[dim])))

    def item(*index: int) -> np.generic:
        if index[dim] not in places:
            return x[index]
        return source[(*index[:dim], places.index(index[dim]), *index[dim + 1 :])]

    return each(x.shape, x.dtype, item)


def selected(x: Array, source: Array, dim: int, index: int) -> Array:
    at = index % x.shape[dim]
    return sliced(x, np.expand_dims(source, dim % x.ndim), dim, at, at + 1)


PARTS: tuple[tuple[Dims, Dims, tuple[int | None, ...]], ...] = (
    ((5, 7), (3, 7), (0, 1, 4, 1)),
    ((5, 8), (2, 8), (0, 0, 3, 2)),
    ((5, 7), (5, 3), (1, -3, None, 1)),
    ((2, 9, 4), (2, 3, 4), (1, 1, 9, 3)),
    ((2, 3, 5), (2, 3, 5), (-1, None, None, 1)),
    ((2, 3, 5), (2, 3, 0), (2, 4, 2, 1)),
    ((2, 3, 16), (2, 1, 16), (1, 2, 99, 1)),
    ((67,), (30,), (0, 5, 65, 2)),
    ((1,), (1,), (0, 0, 1, 1)),
    ((0, 3), (0, 2), (1, 0, 2, 1)),
)
PICKS: tuple[tuple[Dims, int, int], ...] = (
    ((3, 5), 0, 1),
    ((3, 5), 1, -1),
    ((2, 3, 8), 1, 2),
    ((7,), 0, 3),
    ((1, 1), 0, 0),
    ((2, 0, 3), 2, 1),
)

SLICE_SCATTER_CASES = [
    *(
        LiveCase(SLICE, [(random_bits(dims, dtype), random_bits(part, dtype), *args)], sliced)
        for dtype in WIDTHS
        for dims, part, args in PARTS
    ),
    *(
        LiveCase(
            SELECT,
            [(x := random_bits(dims, dtype), np.array(np.flip(x.take(index, dim))), dim, index)],
            selected,
        )
        for dtype in WIDTHS
        for dims, dim, index in PICKS
    ),
    LiveCase(
        SLICE,
        [
            (random_bits((n, 6)), random_bits((k, 6)), 0, Sym(at), Sym(at + k), 1)
            for n, k, at in ((9, 4, 2), (9, 4, 5), (5, 1, 0), (1, 1, 0), (3, 0, 3))
        ],
        sliced,
        label="dynamic",
    ),
]
