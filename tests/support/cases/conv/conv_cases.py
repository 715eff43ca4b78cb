"""Cases of the convolutions.

The expectation follows the textbook: a kernel with holes is one with zeros in them, and a
transposed convolution is a plain one of the input with zeros between its elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

CONVOLUTION = "aten.convolution.default"
CLAMPED = "et_vk.conv_with_clamp.default"
ROUNDED = "webpte.dq8_conv_in_floats.default"  # of images that are rounded in each run


def spread_out(x: Array, steps: list[int]) -> Array:
    """Insert zeros between the elements of the last dims."""
    sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], steps, strict=True)]
    out = np.zeros((*x.shape[:2], *sizes))
    out[every(steps)] = x
    return out


def every(steps: list[int], more: int = 0) -> tuple[Any, ...]:
    """Return an index with these steps along some dims, and all of `more` dims after them."""
    return (..., *(slice(None, None, step) for step in steps), *(slice(None),) * more)


def correlate(x: Array, weight: Array, stride: list[int]) -> Array:
    """(B, C, ..) by (O, C, ..), every window in turn."""
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axes)
    windows = windows[every(stride, len(axes))]
    taps = range(-len(axes), 0)
    summed = np.tensordot(windows, weight, ([1, *taps], [1, *(i + weight.ndim for i in taps)]))
    return np.moveaxis(summed, -1, 1)


def pad(x: Array, before: list[int], behind: list[int]) -> Array:
    """Pad the last dims with zeros; negative numbers crop."""
    widths = [(max(a, 0), max(b, 0)) for a, b in zip(before, behind, strict=True)]
    x = np.pad(x, [(0, 0), (0, 0), *widths])
    kept = [slice(max(-a, 0), -b if b < 0 else None) for a, b in zip(before, behind, strict=True)]
    return x[(..., *kept)]


def expect(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    low: float | None = None,
    high: float | None = None,
) -> Array:
    rank = x.ndim - 2
    stride, padding, dilation, extra = (
        items * rank if len(items) == 1 else items
        for items in (stride, padding, dilation, output_padding)
    )
    weight, parts = spread_out(weight, dilation), []
    for part, taps in zip(np.split(x, groups, 1), np.split(weight, groups, 0), strict=True):
        if transposed:
            reach = [k - 1 - p for k, p in zip(taps.shape[2:], padding, strict=True)]
            behind = [r + e for r, e in zip(reach, extra, strict=True)]
            flipped = np.flip(taps, tuple(range(2, taps.ndim))).swapaxes(0, 1)
            parts.append(
                correlate(pad(spread_out(part, stride), reach, behind), flipped, [1] * rank)
            )
        else:
            parts.append(correlate(pad(part, padding, padding), taps, stride))
    result = np.concatenate(parts, 1)
    if bias is not None:
        result += bias.reshape(-1, *(1,) * rank)
    return np.clip(result, -np.inf if low is None else low, np.inf if high is None else high)


def conv(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    *,
    stride: list[int] | None = None,
    padding: list[int] | None = None,
    dilation: list[int] | None = None,
    extra: list[int] | None = None,
    groups: int = 1,
    transposed: bool = False,
    bias: bool = True,
    clamp: tuple[Any, ...] = (),
    live: tuple[tuple[int, ...], ...] = (),
    op: str = CONVOLUTION,
    label: str = "",
) -> RowCase:
    """Build a case from shapes; `live` has further input shapes, `clamp` the two bounds."""
    channels = weight[1] * groups if transposed else weight[0]
    weights = normal(weight, 2, scale=float(np.prod(weight[1:])) ** -0.5)
    biases = normal((channels,), 3) if bias else None
    args = (
        normal(x, 1),
        weights,
        biases,
        stride or [1],
        padding or [0],
        dilation or [1],
        transposed,
        extra or [0],
        groups,
        *clamp,
    )
    others = (weights,) if biases is None else (weights, biases)
    return RowCase(
        op=CLAMPED if clamp else op,
        args=args,
        expect=expect,
        label=label,
        rtol=1e-4,
        atol=2e-5,
        live=tuple((normal(shape, 4 + i), *others) for i, shape in enumerate(live)),
    )


# By the kernels that they run on; a test checks that they do.

TILED = [
    conv((1, 5, 9, 7), (19, 5, 3, 3), padding=[1, 1]),
    conv((2, 3, 11, 6), (37, 3, 3, 2), stride=[2, 1], padding=[2, 1], dilation=[2, 3], bias=False),
    conv((1, 3, 15, 15), (21, 3, 7, 7), stride=[2], padding=[3]),
    conv((3, 4, 8, 8), (18, 4, 1, 1), stride=[2, 2]),
    conv((1, 18, 7, 7), (33, 18, 1, 1), label="no whole quads"),
    conv((1, 6, 5, 5), (9, 6, 3, 3), padding=[1], label="few rows"),
    conv((1, 1, 1, 1), (8, 1, 1, 1), label="one of all"),
    conv((1, 9, 13, 21), (3, 9, 3, 3), bias=False, label="a quad of rows"),
    conv((1, 3, 93, 90), (70, 3, 3, 3), padding=[0, 1], label="large tiles"),
    conv((2, 12, 9, 5), (26, 6, 3, 3), stride=[1, 2], padding=[1, 1], groups=2),
    conv((1, 7, 23), (17, 7, 5), stride=[2], padding=[2]),
    conv((2, 3, 19), (11, 3, 3), dilation=[4], bias=False),
    conv((1, 5, 8, 11), (13, 5, 3, 3), stride=[2], padding=[1], bias=False, op=ROUNDED),
]
POINTWISE = [
    conv((1, 18, 6, 6), (33, 18, 1, 1)),
    conv((3, 7, 2, 10), (13, 7, 1, 1), bias=False, label="few rows, several images"),
    conv((2, 20, 4, 9), (22, 10, 1, 1), groups=2),
    conv((1, 5, 92, 92), (70, 5, 1, 1), label="large tiles"),
    conv((2, 9, 68), (21, 9, 1)),
    conv((1, 13, 1, 8), (19, 13, 1, 1), clamp=(0, 0.5)),
    conv((2, 6, 4, 4), (6, 9, 1, 1), transposed=True),
]
PRODUCTS = [
    conv((1, 20, 7, 5), (37, 20, 1, 1), label="pixels that are no quads"),
    conv((3, 8, 2, 10), (13, 8, 1, 1), bias=False, label="several images"),
    conv((1, 1000, 2, 2), (35, 1000, 1, 1), clamp=(0, 0.5)),
    conv((2, 12, 68), (21, 12, 1)),
]
WINDOWS = [
    conv((1, 8, 61, 37), (20, 8, 3, 3), padding=[1]),
    conv((2, 36, 33, 30), (17, 36, 3, 3), padding=[0, 2], clamp=(-0.5, 0.75), bias=False),
]
SPLIT = [
    conv((1, 300, 5, 5), (33, 300, 3, 3), padding=[1]),
    conv((2, 90, 4, 5), (40, 90, 3, 3), clamp=(-0.25, None), label="two parts"),
    conv((1, 60, 6, 6), (12, 60, 3, 3), bias=False, label="few rows"),
    conv((1, 1002, 2, 2), (35, 1002, 1, 1), label="pointwise"),
    conv((1, 500, 3, 3), (500, 17, 4, 4), stride=[2], padding=[1], transposed=True),
    conv((1, 400, 9), (30, 400, 3), stride=[2], clamp=(None, 1)),
]
DIRECT = [
    conv((2, 7, 13, 11), (7, 1, 3, 3), padding=[1], groups=7),
    conv((1, 5, 12, 9), (5, 1, 5, 5), stride=[2, 2], padding=[2, 2], groups=5, bias=False),
    conv((1, 3, 9, 40), (3, 1, 3, 9), stride=[1, 8], padding=[1, 4], groups=3, label="no window"),
    conv((1, 4, 11, 30), (4, 1, 3, 3), dilation=[2, 12], padding=[2, 12], groups=4),
    conv((1, 3, 8, 5), (9, 1, 3, 3), padding=[1], groups=3, label="three channels per group"),
    conv((2, 8, 7, 6), (12, 2, 3, 3), stride=[2], padding=[1], groups=4),
    conv((1, 6, 9, 9), (12, 3, 2, 2), groups=2, clamp=(-1, 1.5), label="a block and a half"),
    conv((1, 2, 1, 1), (2, 1, 1, 1), groups=2),
    conv((2, 6, 17), (6, 1, 3), padding=[2], dilation=[2], groups=6),
    conv((1, 6, 15), (9, 2, 3), groups=3),
    conv((2, 6, 9, 7), (6, 1, 3, 3), padding=[1], groups=6, bias=False, op=ROUNDED),
]
TRANSPOSED_TILED = [
    conv((1, 4, 5, 6), (4, 9, 3, 3), stride=[2], padding=[1], extra=[1], transposed=True),
    conv((2, 5, 4, 3), (5, 20, 4, 2), stride=[3, 2], padding=[2, 0], transposed=True, bias=False),
    conv((1, 6, 4, 4), (6, 8, 3, 3), stride=[2], dilation=[2], groups=2, transposed=True),
    conv((1, 3, 3, 4), (3, 11, 2, 2), stride=[3], dilation=[3, 2], extra=[2], transposed=True),
    conv((1, 2, 3, 3), (2, 17, 1, 2), stride=[4, 5], transposed=True, label="phases without taps"),
    conv((1, 5, 6, 7), (5, 10, 3, 3), padding=[2, 1], transposed=True, clamp=(0, 6)),
    conv((2, 4, 9), (4, 8, 4), stride=[2], padding=[1], transposed=True),
    conv((1, 3, 70, 66), (3, 66, 2, 2), stride=[2], transposed=True, label="large tiles"),
]
TRANSPOSED_DIRECT = [
    conv((1, 5, 4, 6), (5, 1, 3, 3), stride=[2], padding=[1], groups=5, transposed=True),
    conv((2, 4, 5, 6), (4, 3, 3, 3), stride=[3], padding=[1], extra=[1], transposed=True),
    conv((1, 6, 7), (6, 2, 5), stride=[4], dilation=[3], extra=[2], groups=3, transposed=True),
    conv((1, 2, 2, 2), (2, 2, 1, 1), stride=[3], extra=[2], transposed=True, bias=False),
    conv((1, 4, 3, 3), (4, 6, 3, 3), transposed=True, clamp=(None, None)),
    conv((1, 4, 3, 3), (4, 5, 3, 3), transposed=True, clamp=(-1e300, 1e300)),
]
LIVE = [
    conv((3, 4, 12, 10), (18, 4, 3, 3), padding=[1], live=((1, 4, 5, 3), (2, 4, 7, 10))),
    conv((2, 8, 4, 8), (24, 8, 1, 1), live=((2, 8, 3, 5), (1, 8, 2, 2)), label="quads and not"),
    conv((1, 200, 9, 9), (20, 200, 2, 2), live=((1, 200, 2, 2), (1, 200, 6, 3))),
    conv((2, 6, 9, 12), (6, 1, 3, 3), groups=6, live=((1, 6, 4, 5), (2, 6, 3, 3))),
    conv((1, 5, 40), (9, 5, 4), stride=[3], live=((1, 5, 7), (1, 5, 40), (1, 5, 4))),
    conv((2, 3, 6, 6), (3, 9, 3, 3), stride=[2], transposed=True, live=((1, 3, 1, 2),)),
    conv((2, 3, 5, 5), (8, 3, 3, 3), live=((0, 3, 5, 5), (1, 3, 4, 4)), label="no images"),
]

VOLUMES = [
    conv((1, 3, 5, 6, 7), (9, 3, 3, 3, 3), padding=[1]),
    conv((2, 4, 6, 5, 9), (6, 4, 3, 2, 1), stride=[2, 1, 3], padding=[1, 0, 0], bias=False),
    conv((1, 2, 7, 8, 9), (5, 2, 2, 3, 3), dilation=[2, 1, 3], padding=[2, 1, 4]),
    conv((2, 6, 3, 4, 5), (6, 1, 3, 3, 3), padding=[1], groups=6),
    conv((1, 6, 4, 4, 4), (10, 3, 1, 1, 1), groups=2, clamp=(-0.5, 0.75)),
    conv((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), label="one of all"),
    conv((1, 70, 3, 7, 7), (17, 70, 3, 3, 3), stride=[2], padding=[1]),
    conv(
        (2, 3, 5, 6, 7), (4, 3, 3, 3, 3), live=((1, 3, 3, 3, 3), (2, 3, 4, 6, 5), (0, 3, 5, 6, 7))
    ),
]
TRANSPOSED_VOLUMES = [
    conv(
        (1, 4, 3, 4, 5), (4, 3, 2, 3, 2), stride=[2], padding=[1], extra=[1, 0, 1], transposed=True
    ),
    conv((2, 4, 3, 2, 3), (4, 5, 3, 3, 3), stride=[1, 2, 3], transposed=True, bias=False),
    conv((1, 6, 2, 3, 4), (6, 1, 2, 1, 3), dilation=[2, 1, 3], groups=3, transposed=True),
    conv((2, 3, 1, 1, 1), (3, 9, 2, 2, 2), stride=[3], extra=[2], transposed=True, clamp=(0, 6)),
    conv((0, 3, 2, 2, 2), (3, 2, 2, 2, 2), transposed=True),
    conv(
        (2, 3, 4, 5, 3),
        (3, 2, 2, 2, 2),
        stride=[2],
        transposed=True,
        live=((1, 3, 2, 3, 1), (2, 3, 4, 5, 3)),
    ),
]

CONV_CASES = [
    *(
        *TILED,
        *POINTWISE,
        *PRODUCTS,
        *WINDOWS,
        *SPLIT,
        *DIRECT,
        *TRANSPOSED_TILED,
        *TRANSPOSED_DIRECT,
        *LIVE,
    ),
    *VOLUMES,
    *TRANSPOSED_VOLUMES,
]
