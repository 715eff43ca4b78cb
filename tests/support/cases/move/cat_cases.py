"""Cases of concatenation, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import WIDTHS, LiveCase, each, random_bits


def joined(arrays: list[Array], dim: int = 0) -> Array:
    arrays = [x for x in arrays if x.shape != (0,)] or arrays[:1]
    dim %= arrays[0].ndim
    owners = [(x, i) for x in arrays for i in range(x.shape[dim])]
    dims = list(arrays[0].shape)
    dims[dim] = len(owners)

    def source(*index: int) -> Any:
        array, at = owners[index[dim]]
        return array[(*index[:dim], at, *index[dim + 1 :])]

    return each(dims, arrays[0].dtype, source)


def parts(dtype: str, *shapes: tuple[int, ...]) -> list[Array]:
    return [random_bits(shape, dtype) for shape in shapes]


CATS: tuple[tuple[tuple[tuple[int, ...], ...], int], ...] = (
    (((3, 5), (2, 5)), 0),
    (((3, 5), (3, 2)), 1),
    (((3, 4), (3, 8)), -1),
    (((2, 3, 4), (2, 1, 4), (2, 5, 4)), 1),
    (((5,),), 0),
    (((5,), (1,), (7,)), 0),
    (((3, 0), (3, 2)), 1),
    (((0,), (3, 2)), 1),
    (((3, 2), (0,), (3, 1)), -1),
    (((0,), (0,)), 0),
    (((0, 3), (0, 3)), 0),
    # More than one dispatch, with and without ends on word boundaries.
    (tuple((3, n) for n in (1, 2, 3, 4, 5, 6)), 1),
    (tuple((3, 16) for _ in range(9)), 1),
    (tuple((n,) for n in range(1, 14)), 0),
    (((3, 4),) * 4, 0),
)
SAME_TYPE = [
    *(
        LiveCase("aten.cat.default", [(parts(dtype, *shapes), dim)], joined)
        for dtype in ("float32", "int32", "bool", "int8")
        for shapes, dim in CATS
    ),
    LiveCase("aten.cat.default", [(parts("float32", (3, 5), (2, 5)),)], joined),
    *(
        LiveCase(
            "aten.cat.default",
            [
                (parts(dtype, (2, m), (2, n), (2, 3)), 1)
                for m, n in ((5, 4), (4, 4), (0, 3), (1, 0))
            ],
            joined,
            label="dynamic",
        )
        for dtype in WIDTHS
    ),
]
MIXED = [
    np.array([[1, -7, 2**24], [3, 4, 5]], np.int32),
    np.array([[0.5, -0.25], [1e9, 3]], np.float32),
    np.array([[True], [False]]),
    np.array([[200, 3], [1, 0]], np.uint8),
    np.array([[-128, 3], [1, 0]], np.int8),
]
MIXED_TYPES = [
    LiveCase(
        "aten.cat.default",
        [([MIXED[i] for i in some], 1)],
        lambda arrays, dim: joined([x.astype(np.float64) for x in arrays], dim),
        out=out,
        exact=False,
        label=f"to {out}",
    )
    for some, out in (
        ((0, 1, 2, 3, 4), "float32"),
        ((2, 1), "float32"),
        ((0, 2, 3, 4), "int32"),
        ((4, 2), "int8"),
        ((2, 3), "uint8"),
    )
]


CAT_CASES = SAME_TYPE + MIXED_TYPES
