"""Cases of pooling. The expectations walk window by window, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

AVERAGE = "aten.avg_pool2d.default"
MAXIMUM = "aten.max_pool2d.default"
ARGMAX = "webpte.argmax_pool2d.default"
UNEVEN = "webpte.avg_pool2d.default"
WITH_INDICES = "aten.max_pool2d_with_indices.default"

Pairs = list[int]


def sizes_of(
    x: Array, kernel: Pairs, stride: Pairs, padding: Pairs, dilation: Pairs, ceil: bool
) -> list[int]:
    """Counts windows instead of computing how many there are."""
    sizes = []
    for n, k, s, p, d in zip(x.shape[-2:], kernel, stride, padding, dilation, strict=True):
        reach, start, count = (k - 1) * d + 1, -p, 0
        while start + reach <= n + p or (ceil and start < n and start + reach - s < n + p):
            start, count = start + s, count + 1
        sizes.append(count)
    return sizes


def both(numbers: Pairs | None, default: Pairs) -> Pairs:
    return (
        list((numbers or default) * 2)[:2] if len(numbers or default) == 1 else numbers or default
    )


def expect_average(
    x: Array,
    kernel: Pairs,
    stride: Pairs | None = None,
    padding: Pairs | None = None,
    ceil: bool = False,
    count_padding: bool = True,
    divisor: int | None = None,
) -> Array:
    kernel = both(kernel, kernel)
    stride, padding = both(stride, kernel), both(padding, [0])
    out = np.zeros((*x.shape[:-2], *sizes_of(x, kernel, stride, padding, [1, 1], ceil)), x.dtype)
    for at in np.ndindex(*out.shape):
        total, inside, padded = 0.0, 0, 0
        for i, j in np.ndindex(*kernel):
            h, w = at[-2] * stride[0] - padding[0] + i, at[-1] * stride[1] - padding[1] + j
            padded += h < x.shape[-2] + padding[0] and w < x.shape[-1] + padding[1]
            if 0 <= h < x.shape[-2] and 0 <= w < x.shape[-1]:
                total, inside = total + x[(*at[:-2], h, w)], inside + 1
        count = divisor or (padded if count_padding else inside)
        out[at] = (total / count if x.dtype.kind == "f" else int(total / count)) if inside else 0
    return out


def expect_uneven(x: Array, kernel: Pairs, stride: Pairs, padding: Pairs) -> Array:
    """Average windows of an image with NaN around it, which do not count."""
    top, left, bottom, right = padding
    sides = [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)]
    wide = np.pad(x, sides, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, (-2, -1))
    return np.nanmean(windows[..., :: stride[0], :: stride[1], :, :], (-2, -1))


def expect_maximum(
    x: Array,
    kernel: Pairs,
    stride: Pairs | None = None,
    padding: Pairs | None = None,
    dilation: Pairs | None = None,
    ceil: bool = False,
) -> tuple[Array, Array]:
    kernel = both(kernel, kernel)
    stride, padding, dilation = both(stride, kernel), both(padding, [0]), both(dilation, [1])
    values = np.zeros(
        (*x.shape[:-2], *sizes_of(x, kernel, stride, padding, dilation, ceil)), x.dtype
    )
    places = np.zeros(values.shape, np.int32)
    for at in np.ndindex(*values.shape):
        best: Any = None
        for i, j in np.ndindex(*kernel):
            h = at[-2] * stride[0] - padding[0] + i * dilation[0]
            w = at[-1] * stride[1] - padding[1] + j * dilation[1]
            if 0 <= h < x.shape[-2] and 0 <= w < x.shape[-1]:
                value = x[(*at[:-2], h, w)]
                if best is None or value > best[0] or math.isnan(value):
                    best = value, h * x.shape[-1] + w
        values[at], places[at] = best
    return values, places


def average(x: Array, *args: Any, **options: Any) -> RowCase:
    return RowCase(AVERAGE, (x, *args), expect_average, (str(x.dtype),), **options)


def uneven(x: Array, *args: Any, **options: Any) -> RowCase:
    return RowCase(UNEVEN, (x, *args), expect_uneven, (str(x.dtype),), **options)


def maximum(x: Array, *args: Any, **options: Any) -> RowCase:
    def expect(x: Array, *args: Any) -> Array:
        return expect_maximum(x, *args)[0]

    return RowCase(MAXIMUM, (x, *args), expect, (str(x.dtype),), **options)


def with_indices(x: Array, *args: Any, **options: Any) -> RowCase:
    outs = (str(x.dtype), "int32")
    return RowCase(WITH_INDICES, (x, *args), expect_maximum, outs, **options)


def argmax(x: Array, kernel: Pairs, **options: Any) -> RowCase:
    """Places are counted column by column in their window."""

    def expect(x: Array, kernel: Pairs) -> tuple[Array, Array]:
        values, places = expect_maximum(x, kernel)
        h, w = places // x.shape[-1] % kernel[0], places % x.shape[-1] % kernel[-1]
        return values, w * kernel[0] + h

    return RowCase(ARGMAX, (x, kernel), expect, (str(x.dtype), "int32"), **options)


def digits(shape: tuple[int, ...], dtype: str = "float32", seed: int = 5) -> Array:
    """Few different numbers, so that windows have ties."""
    return np.random.default_rng(seed).integers(0, 4, shape).astype(dtype) - np.dtype(dtype).type(
        0 if dtype.startswith("u") else 2
    )


def strange() -> Array:
    x = digits((2, 7, 9))
    x[0, 2:5, 3] = np.nan
    x[0, 5, 7] = np.inf
    x[1, :4] = -np.inf
    x[1, 6, 8] = np.nan
    return x


def geometries() -> list[RowCase]:
    cases = []
    x = normal((2, 3, 11, 8))
    ties = digits((2, 3, 11, 8))
    for kernel, stride, padding in (
        ([2, 2], [2, 2], [0, 0]),
        ([3, 3], [2, 2], [1, 1]),
        ([3, 2], [1, 3], [1, 0]),
        ([5, 1], [], [2, 0]),
        ([4], [3], [2]),
        ([1, 1], [2, 1], [0, 0]),
        ([11, 8], [], [0]),
    ):
        for ceil in (False, True):
            cases.append(average(x, kernel, stride, padding, ceil, ceil, None))
            cases.append(average(x, kernel, stride, padding, ceil, not ceil, None))
            cases.append(with_indices(ties, kernel, stride, padding, [1, 1], ceil))
    return cases


POOL_CASES = [
    *geometries(),
    average(normal((1, 2, 9, 7)), [3, 3], [2, 2], [1, 1], False, True, 5),
    average(normal((1, 2, 9, 7)), [3, 3], [2, 2], [1, 1], True, False, -2),
    average(normal((3, 5, 5)), [2], label="defaults, no batch"),
    average(normal((1, 3, 20, 17)), [20, 17], label="all of it, several lanes"),
    average(normal((1, 2, 40, 30)), [38, 29], [1, 1], [2, 3], False, False, label="64 lanes"),
    average(digits((1, 2, 6, 6), "int32") * 9, [3, 2], [2, 2], [1, 0]),
    average(normal((2, 2, 9, 8)), [3], [2], [1], live=((normal((1, 2, 4, 3), 2),),)),
    average(
        normal((2, 2, 9, 8)), [3], live=((normal((0, 2, 9, 8), 2),), (normal((2, 2, 3, 3), 3),))
    ),
    uneven(normal((2, 3, 11, 8)), [2, 2], [2, 2], [0, 0, 1, 1]),
    uneven(normal((2, 3, 11, 8)), [3, 2], [1, 3], [2, 0, 1, 1]),
    uneven(normal((3, 1, 1)), [3, 2], [1, 1], [0, 1, 2, 0], label="one element, no batch"),
    uneven(normal((1, 2, 40, 30)), [38, 29], [1, 1], [3, 0, 0, 5], label="64 lanes, uneven"),
    uneven(normal((2, 2, 9, 8)), [3, 3], [2, 2], [1, 0, 0, 2], live=((normal((1, 2, 4, 3), 2),),)),
    with_indices(digits((1, 4, 12, 10)), [3, 2], [1, 2], [1, 1], [2, 3], False),
    with_indices(digits((1, 4, 12, 10)), [2, 3], [3, 2], [1, 1], [4, 2], True),
    with_indices(strange(), [3, 3], [2, 2], [1, 1], label="NaN and infinities, no batch"),
    with_indices(digits((1, 2, 23, 19)), [23, 19], label="several lanes"),
    with_indices(digits((1, 1, 40, 31)), [33, 27], [3, 2], [5, 6], label="64 lanes"),
    with_indices(np.tile(strange(), (1, 3, 3)), [13, 15], [8, 9], label="NaN, several lanes"),
    with_indices(digits((1, 3, 7, 7), "int32") * 2**28, [3, 3], [2, 2], [1, 1]),
    with_indices(digits((1, 3, 7, 7), "int8"), [3, 3], [2, 2], [1, 1]),
    with_indices(digits((1, 3, 5, 7), "uint8"), [2, 2], [1, 2]),
    with_indices(digits((2, 3, 9, 8)), [2, 2], live=((digits((1, 3, 5, 4), seed=6),),)),
    maximum(digits((2, 3, 9, 8)), [3, 3], [2, 2], [1, 1]),
    *(argmax(digits((2, 3, 9, 8)), kernel) for kernel in ([3, 2], [9, 1], [1, 8], [4, 5], [1, 1])),
    argmax(digits((3, 40, 31)), [38, 29], label="64 lanes, no batch"),
    argmax(digits((2, 3, 9, 8)), [2, 2], live=((digits((1, 3, 5, 4), seed=6),),)),
    maximum(normal((3, 9, 8)), [2], label="defaults, no batch"),
    maximum(normal((1, 2, 9, 8)), [3], [2], [1], live=((normal((1, 2, 2, 3), 2),),)),
]
