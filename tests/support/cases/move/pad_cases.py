"""Cases of padding, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import WIDTHS, LiveCase, Sym, each, random_bits


def padded(x: Array, pad: list[int], value: float = 0, *, dtype: Any = None) -> Array:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    dims = [size + a + b for size, (a, b) in zip(x.shape, pairs, strict=True)]
    # `x` holds bits, so the value has to.
    filler = np.array(value).astype(dtype or x.dtype)
    filler = filler.view(x.dtype) if filler.dtype.itemsize == x.dtype.itemsize else filler

    def source(*index: int) -> Any:
        place = [i - before for i, (before, _) in zip(index, pairs, strict=True)]
        inside = all(0 <= i < size for i, size in zip(place, x.shape, strict=True))
        return x[tuple(place)] if inside else filler

    return each(dims, x.dtype, source)


PADS: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((3, 8), [1, 2]),
    ((3, 8), [4, 4]),
    ((2, 4, 8), [1, 1, 2, 0]),
    ((2, 4, 8), [0, 0, 1, 2]),
    ((2, 3, 2, 3, 2), [1, 0, 0, 1, 2, 1, 0, 2, 1, 1]),
    ((3, 8), [-2, 3]),
    ((3, 8), [-2, -3, 1, -2]),
    ((3, 8), [-4, -4]),
    ((3, 8), [-9, 9]),
    ((3, 8), [9, -9]),
    ((3, 8), [0, 0, -2, 5]),
    ((3, 8), []),
    ((5,), [1, 1]),
    ((), []),
    ((0, 3), [1, 1, 2, 0]),
    ((3, 8), [-3, -5]),
)
PAD_VALUES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("float32", (0.0, 1.5, -math.inf, 1e-40)),
    ("int32", (0, -7, 3.0)),
    ("uint8", (0, 200)),
    ("bool", (0, 1, True)),
    ("int8", (-3,)),
)
PAD_CASES = [
    *(
        LiveCase(
            "aten.constant_pad_nd.default",
            [(random_bits(shape, dtype), pad, value)],
            lambda x, pad, value, t=dtype: padded(x, pad, value, dtype=t),
        )
        for dtype, values in PAD_VALUES
        for shape, pad in PADS
        for value in values[: 1 if len(shape) > 2 else None]
    ),
    LiveCase("aten.constant_pad_nd.default", [(random_bits((3, 5)), [1, 2])], padded),
    *(
        LiveCase(
            "aten.constant_pad_nd.default",
            [
                (random_bits((m, n), dtype), [1, 2, 0, 1], 0)
                for m, n in ((6, 5), (2, 5), (1, 1), (0, 4))
            ],
            padded,
            label="dynamic",
        )
        for dtype in WIDTHS
    ),
    LiveCase(
        "aten.constant_pad_nd.default",
        [
            (random_bits((2, n)), [Sym(a), Sym(b)], 0.0)
            for n, a, b in ((5, 1, 2), (3, 0, 3), (5, -2, 1))
        ],
        padded,
        label="dynamic",
    ),
]
