"""Cases of element-wise ops of three tensors, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.elementwise.unary_cases import INF, NAN, floats, spread
from support.cases.live_cases import LiveCase

Dims = tuple[int, ...]

SHAPES: tuple[tuple[Dims, Dims, Dims], ...] = (
    ((67,), (67,), (67,)),
    ((), (), ()),
    ((5, 7), (7,), (5, 1)),
    ((7,), (5, 1), ()),
    ((1,), (3, 1, 5), (2, 1, 1, 5)),
    ((0, 3), (3,), ()),
)


def three(shapes: tuple[Dims, Dims, Dims]) -> tuple[Array, Array, Array]:
    x, y, z = (spread(shape, 0.5, 4, seed) for seed, shape in enumerate(shapes))
    return x, y, z


def case(op: str, *args: Any, expect: Callable[..., Any], label: str = "") -> LiveCase:
    def wide(*given: Any) -> Any:
        floats = (a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in given)
        return expect(*floats)

    return LiveCase(f"aten.{op}", [args], wide, out="float32", exact=False, rtol=1e-6, label=label)


def clamped(x: Array, low: Array | None, high: Array | None) -> Array:
    raised = x if low is None else np.where(x < low, low, x)
    return raised if high is None else np.where(raised > high, high, raised)


def product(x: Array, a: Array, b: Array, value: float = 1) -> Array:
    return x + value * (a * b)


def quotient(x: Array, a: Array, b: Array, value: float = 1) -> Array:
    return x + value * (a / b)


def mixed(x: Array, end: Array, weight: Array) -> Array:
    return x * (1 - weight) + end * weight


ODD = floats(NAN, 1, 1, INF, -INF, 0), floats(0, NAN, 0, 0, 0, 2), floats(1, 1, NAN, 1, 1, 1)

TERNARY_CASES = [
    *(case("clamp.Tensor", *three(shapes), expect=clamped) for shapes in SHAPES),
    *(case("addcmul.default", *three(shapes), -0.5, expect=product) for shapes in SHAPES),
    *(case("addcdiv.default", *three(shapes), 2, expect=quotient) for shapes in SHAPES),
    *(case("lerp.Tensor", *three(shapes), expect=mixed) for shapes in SHAPES),
    *(
        case("clamp.Tensor", spread((5, 7), -2, 2), low, high, expect=clamped)
        for low, high in (
            (spread((7,), -1, 0), None),
            (None, spread((5, 1), 0, 1)),
            (None, None),
            (spread((5, 7), 0, 1), spread((), -1, 0)),
        )
    ),
    case(
        "clamp.Tensor",
        *ODD,
        expect=lambda x, low, high: np.minimum(np.maximum(x, low), high),
        label="special",
    ),
    case("addcmul.default", *three(SHAPES[2]), expect=product),
    LiveCase(
        "aten.clamp.Tensor",
        [
            (spread((rows, 5), -2, 2), spread((5,), -1, 0), spread((rows, 1), 0, 1))
            for rows in (7, 1, 3)
        ],
        clamped,
        out="float32",
        exact=False,
        rtol=1e-6,
    ),
]
