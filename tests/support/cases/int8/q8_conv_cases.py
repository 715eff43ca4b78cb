"""Cases of XNNPACK's convolutions on bytes: integer sums over windows, then a float32 product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8_linear_cases import bytes_of, finished, scales_of
from support.cases.int8.q8ta_linear_cases import steps_of
from support.cases.live_cases import Const, LiveCase, each

CONV, TRANSPOSED = "webpte.q8_conv.default", "webpte.q8_conv_transposed.default"


def taps(transposed: bool, out: int, size: int, k: int, s: int, p: int, d: int) -> list[Any]:
    """(tap, input) of one axis; None for an input that is padding."""
    if transposed:
        pairs = [(t, (out + p - t * d) // s) for t in range(k) if (out + p - t * d) % s == 0]
    else:
        pairs = [(t, out * s - p + t * d) for t in range(k)]
    return [(t, i) for t, i in pairs if 0 <= i < size]


def extent(transposed: bool, size: int, k: int, s: int, p: int, extra: int, d: int) -> int:
    """`p` is the padding of both sides."""
    if transposed:
        return (size - 1) * s + d * (k - 1) + 1 + extra - p
    return (size + p - d * (k - 1) - 1) // s + 1


def expected(transposed: bool, out: str) -> Any:
    def expect(
        x: Array, x_zero: int, weight: Array, w_zero: int, scale: Array, bias: Any, *rest: Any
    ) -> Array:
        zero, low, high, kernel, stride, padding, *more = rest
        extra = more.pop(0) if transposed else [0, 0]
        dilation, groups, *depthwise = more
        outs = weight.shape[3 if depthwise and depthwise[0] else 0]
        channels = x.shape[1] // groups
        margins = (padding[0] + padding[2], padding[1] + padding[3])
        geometry = (x.shape[2:], kernel, stride, margins, extra, dilation)
        sizes = [extent(transposed, *numbers) for numbers in zip(*geometry, strict=True)]
        wide, narrow = x.astype(np.int64) - x_zero, weight.astype(np.int64) - w_zero

        def one(b: int, o: int, h: int, w: int) -> int:
            first = o // (outs // groups) * channels
            axes = zip((h, w), x.shape[2:], kernel, stride, padding[:2], dilation, strict=True)
            rows, columns = (taps(transposed, *axis) for axis in axes)
            total = 0 if bias is None else int(bias[o])
            for tap_h, i in rows:
                for tap_w, j in columns:
                    if depthwise and depthwise[0]:
                        total += int(wide[b, first, i, j] * narrow[0, tap_h, tap_w, o])
                    else:
                        under = wide[b, first : first + channels, i, j]
                        total += int(under @ narrow[o, tap_h, tap_w])
            return finished(total, scale[o], zero, low, high)

        return each((x.shape[0], outs, *sizes), np.dtype(out), one)

    return expect


def conv(
    shapes: tuple[int, ...] | Sequence[tuple[int, ...]],
    outs: int,
    kernel: tuple[int, int] = (3, 3),
    *,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    extra: Sequence[int] | None = None,
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    depthwise: bool = False,
    zeros: tuple[int, int, int] = (-5, 0, 7),  # of x, the weights and the output
    types: tuple[str, str, str] = ("int8", "int8", "int8"),
    bounds: tuple[int, int] | None = None,
    bias: bool = True,
) -> LiveCase:
    """`shapes` of x, one or one per step. With `extra` it is transposed."""
    steps, transposed = steps_of(shapes), extra is not None
    dims = (1, *kernel, outs) if depthwise else (outs, *kernel, steps[0][1] // groups)
    limits = np.iinfo(types[2])
    behind = (
        *(zeros[2], *(bounds or (limits.min, limits.max))),
        *(list(kernel), list(stride), list(padding)),
        *([list(extra)] if extra is not None else []),
        *(list(dilation), groups),
        *([] if transposed else [depthwise]),
    )
    weight, scale = Const(bytes_of(dims, types[1])), Const(scales_of(outs))
    offsets = Const(np.arange(outs, dtype=np.int32) * 997 - 1500) if bias else None
    given = [
        (bytes_of(shape, types[0]), zeros[0], weight, zeros[1], scale, offsets, *behind)
        for shape in steps
    ]
    op = TRANSPOSED if transposed else CONV
    return LiveCase(op, given, expected(transposed, types[2]), types[2], exact=False)


SAME: dict[str, Any] = {"padding": (1, 1, 1, 1)}
UNSIGNED: dict[str, Any] = {"zeros": (131, 125, 9), "types": ("uint8", "uint8", "uint8")}
MIDDLE: dict[str, Any] = {"zeros": (200, 128, 0), "types": ("uint8", "uint8", "int8")}

Q8_CONV_CASES = [
    conv((1, 8, 6, 6), 8, **SAME),
    conv((2, 3, 7, 9), 10, (3, 2), stride=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2)),
    conv((1, 5, 6, 8), 9, padding=(0, 1, 1, 0), zeros=(127, 0, -128), bias=False),
    conv((1, 4, 5, 5), 18, bounds=(7, 100), zeros=(-128, 0, 7), **SAME),
    conv((1, 16, 9, 7), 37, stride=(2, 2), padding=(0, 0, 1, 1)),
    conv((2, 8, 6, 6), 16, groups=2, bounds=(-30, 30), **SAME),
    conv((1, 12, 4, 6), 20, (1, 1)),
    conv((1, 12, 3, 3), 20, (1, 1), zeros=(3, 0, 0), types=("int8", "int8", "uint8")),
    conv((1, 8, 1, 1), 8, (1, 1)),
    # Unsigned bytes; weights whose zero is in the middle are as good as signed ones
    conv((1, 8, 6, 6), 12, **SAME, **MIDDLE),
    conv((1, 12, 4, 6), 20, (1, 1), **MIDDLE),
    conv((1, 6, 5, 5), 9, **SAME, **UNSIGNED),
    conv((1, 4, 5, 8), 4, groups=4, **SAME, **UNSIGNED),
    # Narrow groups
    conv((1, 6, 5, 8), 6, groups=3, **SAME),
    conv((1, 2, 9, 9), 3, (6, 6), bias=False),
    conv((1, 4, 6, 8), 4, groups=4, depthwise=True, **SAME),
    conv((2, 5, 9, 16), 5, stride=(2, 2), groups=5, depthwise=True, padding=(0, 0, 1, 1)),
    conv((1, 3, 5, 7), 6, groups=3, depthwise=True, padding=(1, 2, 0, 1)),
    conv((1, 4, 7, 12), 4, groups=4, depthwise=True, padding=(1, 1, 1, 1), **UNSIGNED),
    conv([(2, 3, 8, 8), (1, 3, 5, 7), (1, 3, 3, 3), (0, 3, 8, 8)], 9, **SAME),
    conv((1, 8, 4, 4), 8, (2, 2), stride=(2, 2), extra=(0, 0)),
    conv((2, 3, 4, 5), 10, stride=(2, 2), padding=(1, 1, 1, 1), extra=(1, 1)),
    conv((1, 6, 5, 3), 18, (3, 2), stride=(3, 1), extra=(2, 0), padding=(1, 0, 2, 1)),
    conv((1, 8, 3, 4), 16, stride=(2, 2), groups=2, extra=(0, 0)),
    conv((1, 4, 3, 4), 4, stride=(2, 2), padding=(1, 1, 1, 1), groups=4, extra=(0, 0)),
    conv((1, 6, 3, 3), 9, stride=(2, 2), extra=(1, 0), **UNSIGNED),
    conv([(2, 8, 3, 4), (1, 8, 1, 1), (1, 8, 2, 3)], 8, stride=(2, 2), extra=(0, 0)),
]
