"""Cases of int8 linear layers: integer sums, then float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8ta_cases import requantized
from support.cases.live_cases import Const, LiveCase, each
from support.cases.quant.quantize_cases import integers

FLOAT, LINEAR, GEMV = (
    f"et_vk.{name}.default" for name in ("linear_q8ta_q8csw", "q8ta_linear", "q8ta_linear_gemv")
)
# The sums of the weights are a shortcut that nothing may rely on.
WRONG_SUMS = np.full(4, 77, np.int32)


def per_channel(count: int, low: float = 0.001, high: float = 0.02) -> Array:
    return np.random.default_rng(count + 31).uniform(low, high, count).astype(np.float32)


def value_at(x: Array, zero: int, x_scale: float, weight: Array, scale: Any, bias: Any) -> float:
    """Compute the output of one row of x and one row of weights, which may end in padding."""
    terms = zip(x.tolist(), weight.tolist(), strict=False)
    total = sum((a - zero) * w for a, w in terms)
    return total * x_scale * float(scale) + float(bias)


def values(
    x: Array, x_scale: float, zero: int, weight: Array, scales: Array, bias: Array | None
) -> Array:
    def one(*at: int) -> float:
        *row, n = at
        offset = 0.0 if bias is None else bias[n]
        return value_at(x[tuple(row)], zero, x_scale, weight[n], scales[n], offset)

    return each((*x.shape[:-1], weight.shape[0]), np.float64, one)


def float_linear(
    x: Array, x_scale: float, x_zero: int, weight: Array, _: Array, scales: Array, bias: Any = None
) -> Array:
    return values(x, x_scale, x_zero, weight, scales, bias)


def int8_linear(
    x: Array,
    x_scale: float,
    x_zero: int,
    weight: Array,
    _: Array,
    scales: Array,
    out_scale: float,
    out_zero: int,
    bias: Array | None = None,
    activation: str = "none",
) -> Array:
    v = values(x, x_scale, x_zero, weight, scales, bias)
    if activation == "relu":
        v = np.maximum(v, 0)
    return each(v.shape, np.int8, lambda *at: requantized(v[at], out_scale, out_zero))


def steps_of(shapes: tuple[int, ...] | Sequence[tuple[int, ...]]) -> list[Any]:
    """Build a case from one shape, or a list of them."""
    return list(shapes) if isinstance(shapes, list) else [shapes]


def linear(
    op: str,
    shapes: tuple[int, ...] | Sequence[tuple[int, ...]],
    n: int,
    *,
    zero: int = -5,
    bias: bool = True,
    activation: str = "none",
    row_bytes: int | None = None,
    padded: bool = False,
) -> LiveCase:
    """`shapes` of x, one or one per step."""
    steps = steps_of(shapes)
    k = steps[0][-1]
    count = -(-n // 4) * 4 if padded else n
    weight = integers((n, row_bytes or k))
    constants = (Const(weight), Const(WRONG_SUMS), Const(per_channel(count)))
    offsets = Const(per_channel(count, -20, 20)) if bias else None
    behind = (offsets,) if op == FLOAT else (0.37, 7, offsets, activation)
    given = [(integers(shape), 0.021, zero, *constants, *behind) for shape in steps]
    return LiveCase(
        op,
        given,
        float_linear if op == FLOAT else int8_linear,
        "float32" if op == FLOAT else "int8",
        f"n{n}",
        1e-5 if op == FLOAT else 0,
        exact=False,
    )


# Few rows, then many; whole words, then not; k long enough for every slice to have its share.
SIZES = (
    ((1, 16), 8),
    ((1, 1), 1),
    ((2, 5), 3),
    ((3, 32), 12),
    ((4, 33), 7),
    ((5, 16), 8),
    ((7, 3), 5),
    ((21, 3), 5),
    ((33, 20), 36),
    ((18, 130), 70),
)

VARIANTS: tuple[dict[str, Any], ...] = (
    {"activation": "relu"},
    {"bias": False, "zero": 127},
    {"padded": True, "zero": -128},
)

Q8TA_LINEAR_CASES = [
    *(linear(op, shape, n) for op in (FLOAT, LINEAR) for shape, n in SIZES),
    linear(GEMV, (1, 16), 8),
    linear(GEMV, (6, 9), 5, bias=False),
    *(
        linear(LINEAR, shape, n, **options)
        for shape, n in (((1, 24), 8), ((19, 24), 6))
        for options in VARIANTS
    ),
    linear(FLOAT, (17, 5), 6, row_bytes=8, padded=True),
    linear(LINEAR, (2, 6), 8, row_bytes=8),
    linear(LINEAR, (5,), 6),
    linear(LINEAR, (2, 3, 8), 4),
    linear(LINEAR, (2, 0), 4),
    linear(LINEAR, (0, 8), 4),
    linear(LINEAR, [(40, 12), (3, 12), (1, 12), (0, 12), (17, 12)], 8),
    linear(FLOAT, [(2, 6, 7), (1, 1, 7), (2, 3, 7)], 5),
]
