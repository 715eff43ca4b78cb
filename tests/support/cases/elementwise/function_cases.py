"""Cases of elementary functions, to a few units in the last place; expectations are `math`'s."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from support.cases.cases import Array, Case
from support.cases.elementwise.unary_cases import (
    BYTES,
    INF,
    INTEGERS,
    NAN,
    SHAPES,
    SPECIAL,
    floats,
    spread,
    unary,
)

ULP = 2.0**-23
FEW = 6 * ULP  # how far results may be off, relative to themselves

# name, low, high, function, further values
Row = tuple[str, float, float, Callable[[float], float], tuple[float, ...]]

NEAR_0 = (0.0, -0.0, 1e-3, -1e-3, 1e-6, -1e-6, 1e-12, 1e-20, -1e-30)


def mish(x: float) -> float:
    return x * math.tanh(math.log1p(math.exp(x)))


def silu(x: float) -> float:
    return x / (1 + math.exp(-x)) if x > -80 else 0.0


FUNCTIONS: tuple[Row, ...] = (
    ("acos", -1, 1, math.acos, (1, -1, 0.5, -0.5, 0.50001, 0.9999999, -0.9999999, 0)),
    ("acosh", 1, 50, math.acosh, (1, 1.0000001, 1.001, 1e5, 2e9, 1e20, 3e38)),
    ("asin", -1, 1, math.asin, (*NEAR_0, 1, -1, 0.5, -0.5, 0.50001, 0.9999999)),
    ("asinh", -50, 50, math.asinh, (*NEAR_0, 0.3, -0.4, 1e5, 2e9, -1e20, 3e38)),
    ("atan", -9, 9, math.atan, (*NEAR_0, 0.4142, 0.4143, 2.4142, 2.4143, 1, -1, 1e10, -3e38)),
    ("atanh", -1, 1, math.atanh, (*NEAR_0, 0.17, 0.5, -0.999, 0.9999999)),
    ("cosh", -80, 80, math.cosh, (*NEAR_0, 1, -1, 20, 20.1, 88.9, -89.3)),
    ("erf", -5, 5, math.erf, (*NEAR_0, 0.9999, 1, 1.0001, -1, 2, 3.9, 4.1, 10, -1e20)),
    ("expm1", -60, 80, math.expm1, (*NEAR_0, 0.3466, -0.3466, 0.5, -1, 17, -17, 88.7, -200)),
    ("log", 1e-3, 1e4, math.log, (1, 0.99999, 1.00001, 0.7071, 1.4142, 2, 1e-30, 1e-42, 3e38)),
    ("log10", 1e-3, 1e4, math.log10, (1, 0.99999, 1.00001, 10, 100, 1000, 1e-30, 1e-42, 3e38)),
    ("log1p", -0.999, 9, math.log1p, (*NEAR_0, -0.2928, -0.2927, 0.4142, 0.4143, -0.5, 1e10)),
    ("log2", 1e-3, 1e4, math.log2, (1, 0.99999, 1.00001, 2, 1024, 2.0**-126, 1e-42, 3e38)),
    ("reciprocal", 0.01, 100, lambda x: 1 / x, (1, -3, 1e30, -1e-30)),
    ("sinh", -80, 80, math.sinh, (*NEAR_0, 0.3, -1, 20, 20.1, 88.9, -89.3)),
    ("tan", -9, 9, math.tan, (*NEAR_0, 0.785, 1.5, 1.57, -1.6, 3.14159, 100, 1e5)),
)

# With a tolerance for what exp brings in, or for sums that cancel.
CURVES: tuple[Row, ...] = (
    ("hardsigmoid", -9, 9, lambda x: min(max(x + 3, 0), 6) / 6, (-3, 3, 0, -2.999, 1e4)),
    ("mish", -20, 20, mish, (0, 1e-4, -1, 50, 80, -80)),
    ("silu", -20, 20, silu, (0, 1e-4, -1, 50, 88, -70)),
)


def function_cases() -> list[Case]:
    """Each at all shapes, at values where it could go wrong, near 0, and where it has no value."""
    cases = []
    for name, low, high, function, extra in (*FUNCTIONS, *CURVES):
        expect = np.vectorize(function, otypes=[np.float64])
        few = (name, low, high, function, extra) in FUNCTIONS
        how: dict[str, Any] = {"rtol": FEW, "atol": 1e-30} if few else {}
        cases += [unary(name, spread(shape, low, high), expect, **how) for shape in SHAPES]
        small = spread((301,), max(low / 20, -0.5), high / 20, 2)
        if name not in ("acosh",):
            cases += [unary(name, small, expect, label="near 0", **how)]
        cases += [unary(name, floats(*extra), expect, label="picked", **how)]
    return cases


POLES = floats(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, -0.5)


def special_cases() -> list[Case]:
    numpy: dict[str, Callable[[Array], Array]] = {
        "acos": np.arccos,
        "acosh": np.arccosh,
        "asin": np.arcsin,
        "asinh": np.arcsinh,
        "atan": np.arctan,
        "atanh": np.arctanh,
        "ceil": np.ceil,
        "cosh": np.cosh,
        "expm1": np.expm1,
        "floor": np.floor,
        "log": np.log,
        "log10": np.log10,
        "log1p": np.log1p,
        "log2": np.log2,
        "reciprocal": lambda x: 1 / x,
        "sinh": np.sinh,
        "square": lambda x: x * x,
        "tan": np.tan,
        "trunc": np.trunc,
    }
    cases = [unary(name, POLES, f, label="special") for name, f in numpy.items()]
    ends = floats(NAN, INF, -INF)
    return [
        *cases,
        unary("erf", ends, np.sign, label="special"),
        unary("frac", floats(NAN, 1.5, -1.5), lambda x: x - np.trunc(x), label="special"),
        unary("hardsigmoid", ends, lambda x: np.clip(x, 0, 1), label="special"),
        unary("mish", floats(NAN, INF), lambda x: x, label="special"),
        unary("silu", floats(NAN, INF), lambda x: x, label="special"),
        unary("sign", POLES, lambda x: np.where(np.isnan(x), 0, np.sign(x)), label="special"),
        unary("elu", ends, lambda x: np.where(x < 0, -1, x), label="special"),
        unary("softplus", ends, lambda x: np.maximum(x, 0), label="special"),
        unary("threshold", SPECIAL, lambda x: np.where(x <= 0.5, 7, x), 0.5, 7, label="special"),
        *(
            unary(name, x, function, out="bool", label="special")
            for name, function in (("isnan", np.isnan), ("isinf", np.isinf))
            for x in (POLES, SPECIAL[:1], SPECIAL[:0], spread((67,), -1, 1), INTEGERS)
        ),
    ]


def rounded_cases() -> list[Case]:
    """Whole numbers of floats, and integers that stay unchanged."""
    known: dict[str, Callable[[Any], Any]] = {
        "ceil": math.ceil,
        "floor": math.floor,
        "frac": lambda x: x - math.trunc(x),
        "sign": lambda x: (x > 0) - (x < 0),
        "square": lambda x: x * x,
        "trunc": math.trunc,
    }
    picked = floats(-2.5, -1, -0.5, 0, 0.5, 1, 2.5, 8388607.5, -8388607.5, 1e9, -1e9)
    cases = []
    for name, function in known.items():
        expect = np.vectorize(function, otypes=[np.float64])
        cases += [unary(name, spread(shape, -9, 9), expect) for shape in SHAPES]
        cases += [unary(name, picked, expect, label="picked", rtol=ULP)]
        whole = np.vectorize(lambda v, f=function: int(f(int(v))), otypes=[np.int64])
        cases += [unary(name, x, whole) for x in (np.array([5, 0, -7, 2**14], np.int32), BYTES[:5])]
    return cases


def scalar_cases() -> list[Case]:
    x = spread((67,), -6, 6)

    def elu(alpha: float, scale: float, input_scale: float) -> Callable[[Array], Array]:
        return lambda x: scale * np.where(x > 0, x, alpha * np.expm1(x * input_scale))

    def softplus(beta: float, threshold: float) -> Callable[[Array], Array]:
        return lambda x: np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)

    return [
        unary("elu", x, elu(1, 1, 1)),
        unary("elu", x, elu(1, 1, 1), 1.0, 1, 1),
        unary("elu", x, elu(1.6732632, 1.0507009, 1), 1.6732632, 1.0507009, 1),
        unary("elu", x, elu(0.5, 1, 2), 0.5, 1.0, 2.0),
        unary("elu", spread((5, 3), -1e-4, 1e-4), elu(1, 1, 1), label="near 0", rtol=FEW, atol=0),
        unary("softplus", x, softplus(1, 20)),
        unary("softplus", x, softplus(2, 5), 2, 5.0),
        unary("softplus", floats(-80, 19.9, 20.1, 200), softplus(1, 20), 1, 20, rtol=FEW, atol=0),
        unary("threshold", x, lambda v: np.where(v <= 0.25, -1, v), 0.25, -1),
        unary("threshold", x, lambda v: np.where(v <= -2, 0.5, v), -2.0, 0.5),
    ]


FUNCTION_CASES = function_cases() + special_cases() + rounded_cases() + scalar_cases()
