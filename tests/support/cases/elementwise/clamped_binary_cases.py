"""Cases of arithmetic with a clamp; expectations are float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.elementwise.binary_cases import pairs_of
from support.cases.elementwise.unary_cases import INF, NAN, floats
from support.cases.row_cases import RowCase

Bound = float | int | None
FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}


def clip(x: Array, low: Bound, high: Bound) -> Array:
    """Clamp with the upper bound winning; a NaN stays."""
    x = x if low is None else np.where(x < low, low, x)
    return x if high is None else np.where(x > high, high, x)


def after(name: str, x: Array, y: Array, *bounds: Bound, label: str = "") -> RowCase:
    def expect(x: Array, y: Array, low: Bound = None, high: Bound = None) -> Array:
        return clip(FUNCTIONS[name](x, y), low, high)

    return RowCase(f"et_vk.binary_{name}_with_clamp.default", (x, y, *bounds), expect, label=label)


def before(name: str, x: Array, y: Array, low: Bound, high: Bound, label: str = "") -> RowCase:
    def expect(x: Array, low: Bound, high: Bound, y: Array) -> Any:
        return FUNCTIONS[name](clip(x, low, high), y)

    op = f"et_vk.clamp_with_binary_{name}.default"
    return RowCase(op, (x, low, high, y), expect, label=label)


ODD = floats(NAN, INF, -INF, 3e38, -3e38, 0, 1, -7)
BOUNDS: tuple[tuple[Bound, Bound], ...] = (
    (0, 6),
    (-0.5, None),
    (None, 0.25),
    (None, None),
    (-INF, INF),
    (1, -1),
    (-math.pi, 1e300),
)
CLAMPED_BINARY_CASES = [
    *(
        case(name, x, y, -1, 1.5)
        for name in FUNCTIONS
        for x, y in pairs_of(0.5, 4)[:6]
        for case in (after, before)
    ),
    *(case("add", x, y, -2, 2) for x, y in pairs_of(-4, 4)[6:] for case in (after, before)),
    *(case("sub", *pairs_of(-4, 4)[4], *bounds) for bounds in BOUNDS for case in (after, before)),
    *(
        case(name, ODD, floats(1, 1, 1, 3e37, -3e37, 0, NAN, INF), -2, 5, label="odd")
        for name in ("add", "mul")
        for case in (after, before)
    ),
    after("mul", *pairs_of(-4, 4)[0]),
    after("mul", *pairs_of(-4, 4)[0], 0),
]
