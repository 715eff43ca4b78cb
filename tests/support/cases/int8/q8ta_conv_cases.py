"""Cases of int8 convolutions: integer sums over windows, then float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8ta_cases import requantized
from support.cases.int8.q8ta_linear_cases import WRONG_SUMS, per_channel, steps_of
from support.cases.live_cases import Const, LiveCase, each
from support.cases.quant.quantize_cases import integers

CONV, POINTWISE, DEPTHWISE, TRANSPOSED = (
    f"et_vk.q8ta_conv2d{suffix}.default" for suffix in ("", "_pw", "_dw", "_transposed")
)


def out_extent(op: str, size: int, k: int, s: int, p: int, extra: int, d: int) -> int:
    if op == TRANSPOSED:
        return (size - 1) * s - 2 * p + d * (k - 1) + extra + 1
    return (size + 2 * p - d * (k - 1) - 1) // s + 1


def taps(op: str, out: int, size: int, k: int, s: int, p: int, d: int) -> list[tuple[int, int]]:
    """(tap, input) of one axis."""
    if op == TRANSPOSED:
        pairs = [(t, (out + p - t * d) // s) for t in range(k) if (out + p - t * d) % s == 0]
    else:
        pairs = [(t, out * s - p + t * d) for t in range(k)]
    return [(t, i) for t, i in pairs if 0 <= i < size]


def convolved(
    op: str, x: Array, zero: int, weight: Array, kernel: Sequence[int], geometry: Any, groups: int
) -> Array:
    """Compute exact sums; `weight` is [O, KH * KW * C / groups], depthwise [KH, KW, C]."""
    stride, padding, extra, dilation = geometry
    channels = x.shape[1] // groups
    outs = groups if op == DEPTHWISE else weight.shape[0]
    sizes = [
        out_extent(op, *numbers)
        for numbers in zip(x.shape[2:], kernel, stride, padding, extra, dilation, strict=True)
    ]
    wide = x.astype(np.int64) - zero

    def one(b: int, o: int, h: int, w: int) -> int:
        group = o // (outs // groups)
        planes = wide[b, group * channels : (group + 1) * channels]
        total = 0
        axes = zip((h, w), x.shape[2:], kernel, stride, padding, dilation, strict=True)
        rows, columns = (taps(op, *axis) for axis in axes)
        for tap_h, i in rows:
            for tap_w, j in columns:
                if op == DEPTHWISE:
                    total += int(planes[0, i, j]) * int(weight[tap_h, tap_w, o])
                else:
                    at = (tap_h * kernel[1] + tap_w) * channels
                    total += int(planes[:, i, j] @ weight[o, at : at + channels].astype(np.int64))
        return total

    return each((x.shape[0], outs, *sizes), np.int64, one)


def expected(op: str) -> Any:
    def expect(
        x: Array,
        x_scale: float,
        x_zero: int,
        weight: Array,
        _: Array,
        scales: Array,
        out_scale: float,
        out_zero: int,
        bias: Array | None,
        kernel: list[int],
        *rest: Any,
    ) -> Array:
        *geometry, groups, activation = rest
        if op != TRANSPOSED:
            geometry.insert(2, [0, 0])
        sums = convolved(op, x, x_zero, weight, kernel, geometry, groups)

        def one(b: int, o: int, h: int, w: int) -> int:
            scale = scales[o] if o < len(scales) else scales[o % (sums.shape[1] // groups)]
            value = int(sums[b, o, h, w]) * x_scale * float(scale)
            value += 0.0 if bias is None else float(bias[o])
            return requantized(
                max(value, 0) if activation == "relu" else value, out_scale, out_zero
            )

        return each(sums.shape, np.int8, one)

    return expect


def conv(
    op: str,
    shapes: tuple[int, ...] | Sequence[tuple[int, ...]],
    outs: int,
    kernel: tuple[int, int] = (3, 3),
    *,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    extra: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    zero: int = -5,
    bias: bool = True,
    activation: str = "none",
    row_bytes: int | None = None,
    scales: int | None = None,
) -> LiveCase:
    """`shapes` of x, one or one per step; rows of weights are whole words, as exporters write."""
    steps = steps_of(shapes)
    terms = steps[0][1] // groups * kernel[0] * kernel[1]
    row_bytes = row_bytes or -(-terms // 4) * 4
    dims = (*kernel, outs) if op == DEPTHWISE else (outs, row_bytes)
    weight = integers(dims)
    behind = (
        *(list(kernel), list(stride), list(padding)),
        *([list(extra)] if op == TRANSPOSED else []),
        *(list(dilation), groups, activation),
    )
    given = [
        (
            *(integers(shape), 0.021, zero, Const(weight), Const(WRONG_SUMS)),
            *(Const(per_channel(scales or -(-outs // 4) * 4)), 0.7, 7),
            *(Const(per_channel(outs, -20, 20)) if bias else None, *behind),
        )
        for shape in steps
    ]
    return LiveCase(op, given, expected(op), exact=False)


SAME: dict[str, Any] = {"padding": (1, 1)}

GENERAL = [
    conv(CONV, (1, 8, 6, 6), 8, **SAME),
    conv(CONV, (2, 3, 7, 9), 10, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
    conv(CONV, (1, 5, 6, 8), 9, padding=(2, 1), row_bytes=45, zero=127, bias=False),
    conv(CONV, (1, 4, 5, 5), 18, activation="relu", zero=-128, **SAME),
    conv(CONV, (1, 16, 9, 7), 37, (3, 3), stride=(2, 2), **SAME),
    conv(CONV, (1, 67, 4, 4), 12, (1, 1), stride=(2, 2)),
    conv(CONV, (2, 8, 6, 6), 16, groups=2, **SAME),
    conv(CONV, (1, 10, 5, 4), 18, (1, 3), groups=2, activation="relu"),
    conv(CONV, (1, 1, 4, 4), 8, (4, 4)),
    # Narrow groups
    conv(CONV, (1, 6, 5, 8), 6, groups=3, **SAME),
    conv(CONV, (2, 6, 5, 7), 12, groups=6, activation="relu", **SAME),
    conv(CONV, (1, 2, 9, 9), 3, (6, 6), stride=(1, 1), bias=False),
    conv(CONV, [(2, 3, 8, 8), (1, 3, 5, 7), (1, 3, 3, 3), (0, 3, 8, 8)], 9, **SAME),
]

POINTWISES = [
    conv(POINTWISE, (1, 8, 4, 6), 8, (1, 1)),
    conv(POINTWISE, (2, 6, 4, 4), 20, (1, 1), row_bytes=6, activation="relu"),
    conv(POINTWISE, (1, 5, 3, 3), 9, (1, 1)),
    conv(POINTWISE, (2, 12, 2, 6), 18, (1, 1), groups=2, bias=False),
    conv(POINTWISE, (1, 70, 1, 1), 35, (1, 1)),
    conv(POINTWISE, (1, 16, 8, 9), 33, (1, 1), zero=100),
    conv(POINTWISE, [(2, 4, 6, 6), (1, 4, 3, 3), (1, 4, 2, 2), (1, 4, 1, 5)], 8, (1, 1)),
]

DEPTHWISES = [
    conv(DEPTHWISE, (1, 4, 6, 8), 4, groups=4, **SAME),
    conv(DEPTHWISE, (2, 6, 7, 7), 6, groups=6, activation="relu", **SAME),
    conv(DEPTHWISE, (1, 5, 9, 16), 5, stride=(2, 2), groups=5, bias=False, **SAME),
    conv(DEPTHWISE, (1, 4, 7, 12), 4, dilation=(2, 2), padding=(2, 2), groups=4, zero=127),
    conv(DEPTHWISE, (1, 3, 5, 10), 4, (1, 7), padding=(0, 3), groups=3, stride=(1, 3)),
    conv(DEPTHWISE, (2, 3, 4, 4), 3, (1, 1), groups=3),
    conv(DEPTHWISE, (1, 2, 3, 48), 2, (3, 3), stride=(1, 11), groups=2),
    conv(DEPTHWISE, [(2, 4, 8, 8), (1, 4, 5, 7), (2, 4, 3, 4), (0, 4, 8, 8)], 4, groups=4, **SAME),
]

TRANSPOSEDS = [
    conv(TRANSPOSED, (1, 8, 4, 4), 8, (2, 2), stride=(2, 2)),
    conv(TRANSPOSED, (2, 3, 4, 5), 10, stride=(2, 2), padding=(1, 1), extra=(1, 1)),
    conv(TRANSPOSED, (1, 6, 5, 3), 18, (3, 2), stride=(3, 1), extra=(2, 0), dilation=(2, 1)),
    conv(TRANSPOSED, (1, 4, 3, 3), 8, (2, 2), stride=(3, 3), activation="relu"),
    conv(TRANSPOSED, (1, 5, 4, 4), 9, (3, 3), padding=(1, 1), bias=False),
    conv(TRANSPOSED, (1, 8, 2, 4), 8, (1, 1)),
    conv(TRANSPOSED, (1, 8, 3, 4), 16, stride=(2, 2), groups=2, scales=16),
    conv(TRANSPOSED, (1, 8, 3, 4), 16, stride=(2, 2), groups=2, scales=8),
    # Narrow groups
    conv(TRANSPOSED, (1, 4, 3, 4), 4, stride=(2, 2), padding=(1, 1), groups=4),
    conv(TRANSPOSED, (2, 6, 3, 3), 6, (2, 3), stride=(2, 1), groups=2, activation="relu"),
    conv(TRANSPOSED, [(2, 8, 3, 4), (1, 8, 1, 1), (1, 8, 2, 3)], 8, stride=(2, 2)),
]


def as_in_1_1(case: LiveCase, op: str) -> LiveCase:
    """Return a case with the name that ExecuTorch 1.1 gave the op, which had no activations."""
    steps = [step[:-1] for step in case.steps]
    return LiveCase(op, steps, lambda *args: case.expect(*args, "none"), exact=False)


def float_convolved(
    x: Array, scale: float, zero: int, weight: Array, _: Array, scales: Array, *rest: Any
) -> Array:
    """Round x to int8 number by number, then convolve exactly."""
    bias, kernel, *geometry, groups = rest
    geometry.insert(2, [0, 0])
    inverse = np.float32(1 / scale)

    def rounded(*at: int) -> int:
        return max(-128, min(127, round(float(np.float32(x[at]) * inverse)) + zero))

    sums = convolved(CONV, each(x.shape, np.int8, rounded), zero, weight, kernel, geometry, groups)

    def one(b: int, o: int, h: int, w: int) -> float:
        value = int(sums[b, o, h, w]) * scale * float(scales[o])
        return value + (0.0 if bias is None else float(bias[o]))

    return each(sums.shape, np.float32, one)


def float_conv(*args: Any, **options: Any) -> LiveCase:
    """Return a convolution of ExecuTorch 1.0, from floats to floats."""
    steps = []
    for x, scale, zero, weight, sums, scales, _, _, bias, *behind in conv(*args, **options).steps:
        floats = (x * np.float32(scale * 1.1)).astype(np.float32)  # some are clamped
        steps.append((floats, scale, zero, weight, sums, scales, bias, *behind[:-1]))
    return LiveCase(FLOAT_CONV, steps, float_convolved, exact=False, rtol=1e-5)


FLOAT_CONV = "et_vk.conv2d_q8ta_q8csw.default"
IN_1_1 = "et_vk.conv2d_q8ta_q8csw_q8to{}.default"
OLDER = [
    *(as_in_1_1(GENERAL[at], IN_1_1.format("")) for at in (0, 1, 2, 6)),
    *(as_in_1_1(DEPTHWISES[at], IN_1_1.format("_dw")) for at in (0, 2, 3, 7)),
    float_conv(CONV, (1, 8, 6, 6), 8, **SAME),
    float_conv(CONV, (2, 3, 7, 9), 10, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
    float_conv(CONV, (1, 5, 6, 8), 9, padding=(2, 1), zero=127, bias=False),
    float_conv(CONV, (1, 7, 4, 6), 5, (1, 1)),
    float_conv(CONV, (1, 7, 3, 5), 1, (1, 1)),
    float_conv(CONV, (1, 1, 1, 1), 1, (1, 1)),
    float_conv(CONV, (2, 8, 6, 6), 16, groups=2, **SAME),
    float_conv(CONV, [(2, 3, 8, 8), (1, 3, 5, 7), (1, 3, 3, 3), (0, 3, 8, 8)], 9, **SAME),
]

Q8TA_CONV_CASES = [*OLDER, *GENERAL, *POINTWISES, *DEPTHWISES, *TRANSPOSEDS]
