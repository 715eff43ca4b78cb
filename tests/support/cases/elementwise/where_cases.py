"""Cases of aten.where, element by element."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, each, random_bits, scalar_bits


def chosen(condition: Array, x: Array, y: Array) -> Array:
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    c, a, b = (np.broadcast_to(v, shape) for v in (condition, x, y))
    return each(shape, a.dtype, lambda *i: a[i] if c[i] else b[i])


WHERE = "aten.where.self"
WHERE_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 7), (3, 7), (3, 7)),
    ((3, 7), (), (3, 7)),
    ((3, 7), (3, 7), ()),
    ((), (3, 7), (3, 7)),
    ((3, 1), (1, 7), (3, 7)),
    ((1, 7), (2, 3, 1), (1, 1, 1)),
    ((2, 1, 3, 1), (5, 1, 2), (1, 3, 1)),
    ((67,), (1,), (67,)),
    ((1,), (1,), (1,)),
    ((), (), ()),
    ((0, 3), (1, 3), (0, 1)),
)


def where(
    dtype: str, condition: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[Array, Array, Array]:
    c, x, y = shapes
    flags = scalar_bits(condition) if c == () else random_bits(c, condition)
    # Other bits for y than for an x of the same shape.
    return flags, random_bits(x, dtype), np.asarray(random_bits((2, *y), dtype)[1])


WHERE_CASES = [
    *(
        LiveCase(WHERE, [where(dtype, condition, shapes)], chosen, out=dtype)
        for dtype, condition in (
            ("float32", "bool"),
            ("int32", "uint8"),
            ("uint8", "bool"),
            ("bool", "bool"),
        )
        for shapes in WHERE_SHAPES
    ),
    *(
        LiveCase(
            WHERE,
            [
                where(dtype, "bool", ((1, n), (), (m, n)))
                for m, n in ((3, 7), (2, 4), (1, 1), (0, 5))
            ],
            chosen,
            out=dtype,
            label="dynamic",
        )
        for dtype in ("float32", "int8")
    ),
    *(
        LiveCase(
            WHERE,
            [(np.array([True, False, True, False, False]), x, y)],
            lambda c, x, y: np.array([a if f else b for f, a, b in zip(c, x, y, strict=True)]),
            out=out,
            exact=False,
            label=f"to {out}",
        )
        for x, y, out in (
            (np.arange(5, dtype=np.int32) - 2, np.linspace(-1, 1, 5, dtype=np.float32), "float32"),
            (np.arange(5) > 2, np.arange(5, dtype=np.int32), "int32"),
            (np.arange(5, dtype=np.uint8), np.arange(5, dtype=np.int32) - 2, "int32"),
        )
    ),
]
