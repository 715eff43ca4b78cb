"""Cases of the fill family."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, Sym, random_bits


def fill(op: str, out: str, args: tuple[Any, ...], expected: Any, **more: Any) -> LiveCase:
    """The output's dtype is all that the file says about it, in nulls."""
    nulls = (None,) * (5 if "like" in op else 4)
    # NumPy rounds arange only once, in float64.
    return LiveCase(op, [(*args, *nulls)], lambda *_: expected, out=out, exact=False, **more)


SHAPES: tuple[list[int], ...] = ([3, 5], [67], [1], [], [0, 3], [2, 1, 3, 1, 2])
VALUES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("float32", (2, 0.1, -1e9, math.inf, 1e-40)),
    ("int32", (7, -3, 2.0, 2**31 - 1)),
    ("bool", (1, 0, True, 2.5)),
    ("uint8", (200, 3.0, -1)),
    ("int8", (-128, 5)),
)


def filled(shape: list[int], value: float, dtype: str) -> Array:
    """By way of int64, so that numbers out of range wrap."""
    wide = np.float64 if dtype == "float32" else np.bool_ if dtype == "bool" else np.int64
    return np.full(shape, np.array(value).astype(wide).astype(dtype))


FULL_CASES = [
    *(
        fill("aten.full.default", dtype, (shape, value), filled(shape, value, dtype))
        for dtype, values in VALUES
        for shape in SHAPES
        for value in values[: None if shape == [3, 5] else 1]
    ),
    *(
        fill(
            "aten.full_like.default",
            dtype,
            (random_bits((3, 5)), value),
            filled([3, 5], value, dtype),
        )
        for dtype, values in VALUES
        for value in values
    ),
    *(
        fill("aten.scalar_tensor.default", dtype, (value,), filled([], value, dtype))
        for dtype, values in VALUES
        for value in values
    ),
    *(
        fill(f"aten.{name}.default", dtype, (shape,), filled(shape, value, dtype))
        for name, value in (("zeros", 0), ("ones", 1))
        for dtype in ("float32", "int32", "bool", "int8")
        for shape in SHAPES
    ),
    *(
        fill(
            f"aten.{name}_like.default",
            dtype,
            (random_bits((67,), "int32"),),
            filled([67], value, dtype),
        )
        for name, value in (("zeros", 0), ("ones", 1))
        for dtype in ("float32", "int32", "bool", "uint8")
    ),
    LiveCase(
        "aten.full.default",
        [([2, Sym(n)], 3, None, None, None, None) for n in (7, 3, 0, 9)],
        lambda size, value, *_: np.full(size, value),
        out="int32",
        exact=False,
        label="dynamic",
    ),
    LiveCase(
        "aten.zeros_like.default",
        [(random_bits((n, 3)), None, None, None, None, None) for n in (7, 3, 0, 5)],
        lambda x, *_: np.zeros(x.shape),
        out="float32",
        exact=False,
        label="dynamic",
    ),
]


def ascending(start: float, end: float, step: float, *_: Any) -> Array:
    values: list[float] = []
    while (start + len(values) * step < end) if step > 0 else (start + len(values) * step > end):
        values.append(start + len(values) * step)
    return np.array(values, np.float64)


ARANGE = "aten.arange.start_step"
ARANGE_CASES = [
    *(
        LiveCase(
            ARANGE, [(*ends, None, None, None, None)], ascending, out=out, exact=False, rtol=1e-6
        )
        for out, ends in (
            ("float32", (0, 6, 1)),
            ("int32", (0, 6, 1)),
            ("int32", (-3, 67, 7)),
            ("int32", (5, -6, -2)),
            ("int32", (2.0, 9.0, 3.0)),
            ("float32", (0.5, 3.25, 0.25)),
            ("float32", (1, -1, -0.3)),
            ("float32", (0, 67, 0.1)),
            ("int32", (3, 3, 1)),
            ("float32", (0, 0, 1)),
            ("int32", (2**31 - 5, 2**31 - 1, 1)),
            ("int8", (-5, 5, 1)),
            ("uint8", (0, 9, 2)),
        )
    ),
    *(
        LiveCase(
            ARANGE,
            [
                (Sym(start), Sym(start + length), 1, None, None, None, None)
                for start, length in ((0, 5), (1, 5), (100, 5), (7, 1), (3, 0), (-4, 3))
            ],
            ascending,
            out=out,
            exact=False,
            label="live start",
        )
        for out in ("int32", "float32")
    ),
    LiveCase(
        ARANGE,
        [(0, Sym(n), 2, None, None, None, None) for n in (9, 8, 1, 0)],
        ascending,
        out="int32",
        exact=False,
        label="dynamic",
    ),
]


def grid(x: Array, stride: int, offset: float) -> Array:
    height, width = x.shape[-2:]
    points = [
        ((c + offset) * stride, (r + offset) * stride) for r in range(height) for c in range(width)
    ]
    return np.array(points, np.float64).reshape(-1, 2)


GRID_CASES = [
    *(
        LiveCase(
            "et_vk.grid_priors.default",
            [(random_bits(shape), stride, offset)],
            grid,
            exact=False,
            rtol=1e-6,
        )
        for shape, stride, offset in (
            ((1, 3, 4, 4), 16, 0.0),
            ((1, 3, 8, 10), 8, 0.5),
            ((3, 7), 3, 0.25),
            ((2, 5, 1), 7, 0),
            ((0, 3), 2, 0.5),
        )
    ),
    LiveCase(
        "et_vk.grid_priors.default",
        [(random_bits((1, 2, h, w)), 4, 0.5) for h, w in ((5, 7), (3, 4), (1, 1), (5, 0))],
        grid,
        exact=False,
        label="dynamic",
    ),
]
FILL_CASES = FULL_CASES + ARANGE_CASES + GRID_CASES
