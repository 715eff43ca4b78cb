"""Cases of XNNPACK's linear layers: integer sums, then a product of float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8ta_linear_cases import SIZES, per_channel, steps_of
from support.cases.live_cases import Const, LiveCase, each
from support.cases.quant.quantize_cases import integers, to_integer
from support.cases.row_cases import normal

LINEAR, DYNAMIC = "webpte.q8_linear.default", "webpte.linear_dq8ca_q8csw.default"


def bytes_of(shape: Sequence[int], dtype: str) -> Array:
    return integers(shape).view(dtype)


def scales_of(count: int) -> Array:
    """Scales with which some results are out of bounds, and some are ties."""
    scales = np.random.default_rng(count + 5).uniform(0.0005, 0.004, count).astype(np.float32)
    scales[::3] = 2.0**-9
    return scales


def finished(total: int, scale: Any, zero: int, low: int, high: int) -> int:
    """Python rounds halves to even; the product is rounded to float32 before."""
    return max(low, min(high, round(float(np.float32(total) * np.float32(scale))) + zero))


def byte_linear(out: str) -> Any:
    def expect(
        x: Array, x_zero: int, weight: Array, w_zero: int, scale: Array, bias: Any, *bounds: Any
    ) -> Array:
        wide, narrow = x.astype(np.int64) - x_zero, weight.astype(np.int64) - w_zero

        def one(*at: int) -> int:
            *row, n = at
            total = int(wide[tuple(row)] @ narrow[n]) + (0 if bias is None else int(bias[n]))
            return finished(total, scale[n], *bounds)

        return each((*x.shape[:-1], weight.shape[0]), np.dtype(out), one)

    return expect


def linear(
    shapes: tuple[int, ...] | Sequence[tuple[int, ...]],
    n: int,
    *,
    zeros: tuple[int, int, int] = (-5, 0, 7),  # of x, the weights and the output
    types: tuple[str, str, str] = ("int8", "int8", "int8"),
    bounds: tuple[int, int] | None = None,
    bias: bool = True,
) -> LiveCase:
    """`shapes` of x, one or one per step."""
    steps = steps_of(shapes)
    limits = np.iinfo(types[2])
    weight, scale = Const(bytes_of((n, steps[0][-1]), types[1])), Const(scales_of(n))
    offsets = Const(np.arange(n, dtype=np.int32) * 997 - 1500) if bias else None
    behind = (zeros[2], *(bounds or (limits.min, limits.max)))
    given = [
        (bytes_of(shape, types[0]), zeros[0], weight, zeros[1], scale, offsets, *behind)
        for shape in steps
    ]
    return LiveCase(LINEAR, given, byte_linear(types[2]), types[2], f"n{n}", exact=False)


def float_linear(
    x: Array, given: Array, x_zero: Array, weight: Array, scales: Array, bias: Any, inverted: bool
) -> Array:
    steps, zeros = (1 / given if inverted else given).ravel(), x_zero.ravel().astype(np.int64)
    rows = x.reshape(len(steps), x.shape[-1])

    def one(m: int, n: int) -> float:
        scale, zero = float(steps[m]), int(zeros[m])
        terms = zip(rows[m].tolist(), weight[n].tolist(), strict=True)
        total = sum(
            (to_integer(value, scale, zero, -128, 127, False) - zero) * w for value, w in terms
        )
        return total * scale * float(scales[n]) + (0.0 if bias is None else float(bias[n]))

    found = each((len(steps), weight.shape[0]), np.float64, one)
    return found.reshape(*x.shape[:-1], weight.shape[0])


def dynamic(
    shapes: tuple[int, ...] | Sequence[tuple[int, ...]],
    n: int,
    *,
    zero: str = "int8",
    bias: bool = True,
    keepdim: bool = True,
    inverted: bool = False,
) -> LiveCase:
    """`shapes` of x, one or one per step."""
    steps = steps_of(shapes)
    weight = Const(integers((n, steps[0][-1])))
    behind = (weight, Const(per_channel(n)), Const(per_channel(n, -20, 20)) if bias else None)
    given = []
    for shape in steps:
        count = int(np.prod(shape[:-1]))
        dims = (*shape[:-1], 1) if keepdim else shape[:-1]
        x_scale = np.resize(np.array([0.031, 0.0173, 0.25], np.float32), count).reshape(dims)
        x_zero = np.resize(np.array([-128, 3, 127, -7]), count).reshape(dims).astype(zero)
        pair = (1 / x_scale if inverted else x_scale), x_zero
        given.append((normal(shape), *pair, *behind, inverted))
    return LiveCase(DYNAMIC, given, float_linear, "float32", f"n{n}", 1e-5, exact=False)


UNSIGNED: dict[str, Any] = {"zeros": (131, 125, 9), "types": ("uint8", "uint8", "uint8")}
MIDDLE: dict[str, Any] = {"zeros": (200, 128, 0), "types": ("uint8", "uint8", "int8")}

Q8_LINEAR_CASES = [
    *(linear(shape, n) for shape, n in SIZES),
    *(
        linear(shape, n, **options)
        for shape, n in (((1, 24), 8), ((19, 24), 6), ((3, 7), 5), ((21, 5), 8))
        for options in (UNSIGNED, MIDDLE)
    ),
    linear((3, 12), 8, bounds=(7, 90)),
    linear((18, 12), 6, bounds=(-40, 7), bias=False),
    linear((2, 16), 4, types=("int8", "int8", "uint8"), zeros=(3, 0, 0)),
    linear((5,), 6),
    linear((2, 3, 8), 4),
    linear((2, 0), 4),
    linear((0, 8), 4),
    linear([(40, 12), (3, 12), (1, 12), (0, 12), (17, 12)], 8),
    *(dynamic(shape, n) for shape, n in SIZES),
    dynamic((3, 8), 4, zero="int32", bias=False),
    dynamic((2, 3, 12), 5, keepdim=False),
    dynamic((0, 8), 4),
    *(dynamic((rows, 12), 8, inverted=True) for rows in (1, 3, 40)),
    dynamic([(40, 12), (3, 12), (1, 12), (0, 12), (17, 12)], 8),
]
