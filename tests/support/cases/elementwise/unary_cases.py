"""Cases of the unary family. Expectations are float64 and `math`, not the code under test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from support.cases.cases import Arg, Array, Case
from support.graphs.bfloat16 import BITS, EDGES

# Odd and prime sizes, partial quads, one element, no dims, no elements, more than one workgroup.
SHAPES = ((67,), (), (1,), (3,), (5,), (0,), (4, 0, 3), (7, 1, 5, 2), (331,))
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
NAN, INF = math.nan, math.inf


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def spread(shape: tuple[int, ...], low: float, high: float, seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def each(function: Callable[..., float]) -> Callable[[Array], Array]:
    """A function of one number, for arrays of any shape."""
    return np.vectorize(function, otypes=[np.float64])


def gelu(x: float) -> float:
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def hardswish(x: float) -> float:
    return 0 if x <= -3 else x if x >= 3 else x * (x + 3) / 6


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


# Whole turns leave little of these: of large float32, 10367317 is nearest to a whole turn.
HUGE = (-65537.0, 123456.789, 10367317.0, -1e9, 3e38, -3.4e38)
SPECIAL = floats(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0)

# name, low, high, function, further values
SMOOTH: tuple[tuple[str, float, float, Callable[..., float], tuple[float, ...]], ...] = (
    ("abs", -9, 9, lambda x: -x if x < 0 else x, (1e-38, -3e38)),
    ("neg", -9, 9, lambda x: 0 - x, (1e-38, -3e38)),
    ("round", -9, 9, round, (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 8388607.5, 1e9)),
    ("relu", -9, 9, lambda x: x if x > 0 else 0, (1e-30, -1e-30, 3e38)),
    ("exp", -80, 80, math.exp, (0, 1, -1, 88.5, -87, 1e-6)),
    ("sqrt", 0, 1e4, math.sqrt, (0, 1, 2, 1e-30, 1e30)),
    ("rsqrt", 1e-3, 1e4, lambda x: 1 / math.sqrt(x), (1, 4, 1e-30, 1e30)),
    ("sin", -1e4, 1e4, math.sin, (0, 1e-4, math.pi, 1.5, -1e4, 1e4, 30.0, *HUGE)),
    ("cos", -1e4, 1e4, math.cos, (0, 1e-4, math.pi, 1.5, -1e4, 1e4, 30.0, *HUGE)),
    ("tanh", -100, 100, math.tanh, (0, 1e-5, -1e-3, 0.2499, 0.25, 0.2501, -1, 3, 9, 20)),
    ("sigmoid", -100, 100, sigmoid, (0, 1e-5, -1, 1, 17, -17, -88, 1e4, -1e4)),
    ("hardswish", -9, 9, hardswish, (-3, 3, 0, -2.999, 2.999, 1e4, -1e4)),
)


def unary(name: str, x: Array, expect: Callable[..., Any], *args: Arg, **options: Any) -> Case:
    full = name if "." in name else f"aten.{name}.default"
    return Case(full, (x,), expect, args, **options)


def smooth_cases() -> list[Case]:
    """Each at all shapes, and at values where it could go wrong."""
    cases = []
    for name, low, high, function, extra in SMOOTH:
        expect = each(function)
        cases += [unary(name, spread(shape, low, high), expect) for shape in SHAPES]
        cases += [unary(name, spread((67,), low / 20, high / 20, 2), expect, label="near 0")]
        cases += [unary(name, floats(*extra), expect, label="picked")]
    return cases


def scalar_cases() -> list[Case]:
    """Ops with scalar arguments, each scalar as an int, as a double, and absent."""
    x = spread((67,), -4, 4)
    cases = [
        unary("gelu", spread((67,), -9, 9), each(gelu), "none"),
        unary("gelu", floats(-1e4, 1e4, 0, -5.5, 1e-4), each(gelu), "none"),
        unary("gelu", spread((67,), -9, 9), each(gelu_tanh), "tanh"),
        unary("gelu", floats(-1e4, 1e4, 0, -5.5, 1e-4, 1e10), each(gelu_tanh), "tanh"),
        unary("gelu", spread((), -2, 2), each(gelu), "none"),
        unary("gelu", spread((0, 3), -2, 2), each(gelu), "none"),
        unary("gelu", x, each(gelu), None),
        unary("gelu", x, each(gelu)),
    ]
    for slope in (0.25, 0, 2, None):
        used = 0.01 if slope is None else slope
        expect = each(lambda v, s=used: v if v > 0 else v * s)
        cases += [unary("leaky_relu", x, expect, slope)]
    for lambd in (0.5, 1, 0, None):
        used = 0.5 if lambd is None else lambd
        expect = each(lambda v, b=used: v if abs(v) > b else 0)
        cases += [
            unary("hardshrink", x, expect, lambd),
            unary("hardshrink", floats(0.5, -0.5, 1), expect, lambd),
        ]
    for low, high in ((-1.5, 0.5), (None, 0.5), (-0.5, None), (0, 6), (1, -1), (-INF, INF)):
        expect = each(bounded(low, high))
        cases += [unary("clamp", x, expect, low, high)]
    cases += [
        unary("clamp", x, np.asarray, -1e300, 1e300, label="beyond float32"),
        unary("aten.lt.Scalar", x, lambda v: v < INF, 1e300, out="bool"),
    ]
    cases += [
        unary("hardtanh", x, each(bounded(-1, 1))),
        unary("hardtanh", x, each(bounded(0, 2)), 0, 2.0),
        unary("hardtanh", x, each(bounded(-1, 1)), None, None),
    ]
    for exponent in (2, 3, 2.0, 0.5, -1, -2, 0, 0.0, 1, 5):
        base = np.abs(x) if exponent == 0.5 else x
        expect = each(lambda v, e=exponent: v**e)
        cases += [unary("aten.pow.Tensor_Scalar", base, expect, exponent)]
    zeros = floats(0, 0, 1, -1)
    cases += [
        unary("aten.pow.Tensor_Scalar", zeros, lambda v: v * 0 + 1, 0, label="zero to the zero"),
        unary("aten.pow.Tensor_Scalar", zeros, lambda v: v * v, 2, label="zero squared"),
        unary("aten.pow.Tensor_Scalar", floats(-4, 4), np.sqrt, 0.5, label="root of -4"),
    ]
    return cases


def bounded(low: float | None, high: float | None) -> Callable[[float], float]:
    """torch.clamp: the upper bound wins."""

    def bound(x: float) -> float:
        raised = x if low is None or x >= low else low
        return raised if high is None or raised <= high else high

    return bound


INTEGERS = np.array(
    [0, 1, -1, 7, -7, 2**24 + 1, -(2**24) - 1, 2**30 + 3, INT32_MAX, INT32_MIN + 1, 46340],
    np.int32,
)
ROUND_BFLOAT16 = "webpte.round_bfloat16.default"
SMALL = np.array([0, 1, -1, 7, -7, 127, -127, -128, 64, 3, 100], np.int8)
BYTES = np.array([0, 1, 255, 7, 249, 127, 129, 128, 64, 3, 200], np.uint8)


def wrapped(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Exact in int64; `Case.expected` wraps it to the output's type."""
    return lambda x: function(x.astype(np.int64))


def integer_cases() -> list[Case]:
    """Exact, also where float32 is not; results wrap."""
    cases = []
    for x in (INTEGERS, SMALL, BYTES, INTEGERS.reshape(1, 11), INTEGERS[:0]):
        cases += [
            unary("abs", x, wrapped(np.abs)),
            unary("neg", x, wrapped(np.negative)),
            unary("round", x, wrapped(np.asarray)),
            unary("relu", x, wrapped(lambda v: np.where(v > 0, v, 0))),
            unary("bitwise_not", x, wrapped(lambda v: -v - 1)),
            unary("clamp", x, wrapped(each(bounded(3, 100))), 3, 100),
            unary("clamp", x, wrapped(each(bounded(3, 100))), 3.0, 100.0),
            unary("clamp", x, wrapped(each(bounded(None, 5))), None, 5),
            unary("clamp", x, wrapped(each(bounded(2, None))), 2.0, None),
            unary("hardtanh", x, wrapped(each(bounded(0, 6))), 0, 6.0),
        ]
        for exponent in (2, 2.0, 3, 0, 1, 31):
            power = wrapped(partial(integer_power, int(exponent)))
            cases += [unary("aten.pow.Tensor_Scalar", x, power, exponent)]
        cases += [
            unary(name, x, each(function), out="float32", label="from integers")
            for name, function in (("sigmoid", sigmoid), ("tanh", math.tanh))
        ]
    cases += [unary("cos", x, each(math.cos), out="float32") for x in (SMALL, BYTES)]
    large = np.array([2**24 + 1, 2**24, INT32_MAX, INT32_MIN], np.int32)
    cases += [
        unary("clamp", large, wrapped(each(bounded(None, 2**24 + 1))), None, 2**24 + 1),
        unary("clamp", large, wrapped(np.asarray), -(2**40), 2**40, label="bounds beyond int32"),
        unary("clamp", BYTES, wrapped(each(bounded(255, None))), -1, None, label="wraps"),
        unary("clamp", BYTES, wrapped(each(bounded(2, 254))), 2, -2, label="wraps"),
    ]
    return cases


def integer_power(exponent: int, x: Array) -> Array:
    """By plain multiplication in Python ints, modulo 2**64 so that NumPy takes it."""
    flat = [((int(v) ** exponent + 2**63) % 2**64) - 2**63 for v in x.ravel()]
    return np.array(flat, np.int64).reshape(x.shape)


def truth_cases() -> list[Case]:
    """Truth values in, truth values out, at every length modulo 4."""
    cases = []
    rng = np.random.default_rng(3)
    for length in (1, 2, 3, 4, 5, 67, 0):
        flags = rng.random(length) < 0.5
        cases += [
            unary("logical_not", flags, lambda v: v == 0),
            unary("bitwise_not", flags, lambda v: v == 0),
        ]
    for x in (floats(0, -0.0, 1, NAN, INF, 1e-38), INTEGERS, SMALL, BYTES, np.array(True)):
        cases += [unary("logical_not", x, lambda v: ~(v != 0), out="bool")]
    return cases


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def compare_cases() -> list[Case]:
    cases = []
    for name, function in COMPARISONS.items():

        def against(x: Array, scalar: float, f: Any = function, n: str = name) -> Case:
            # Python compares int with float exactly, NumPy's int32 with float64 too.
            expect = np.vectorize(lambda v: f(v, scalar), otypes=[bool])
            return unary(f"aten.{n}.Scalar", x, expect, scalar, out="bool")

        for shape in ((67,), (), (1,), (3,), (5,), (0, 2)):
            cases += [against(np.round(spread(shape, -3, 3) * 2) / 2, 0.5)]
        cases += [
            against(floats(0.5, 1, 1.5), 1),
            against(SPECIAL, 0.0),
            against(SPECIAL, INF),
            against(INTEGERS, 2**24 + 1),
            against(INTEGERS, -7.0),
            against(INTEGERS[:5], 0.5),
            against(INTEGERS, INT32_MAX),
            against(SMALL, 300),
            against(SMALL, 7),
            against(BYTES, 200),
            against(BYTES, -1),
            against(np.array([True, False, True]), 1),
        ]
    return cases


def beyond_int32_cases() -> list[Case]:
    """Scalars that no int32 equals: 2**31 is one more than the largest, and inf is not in it."""
    x = np.array([INT32_MAX, INT32_MIN, 0], np.int32)
    return [
        unary(
            f"aten.{name}.Scalar",
            x,
            np.vectorize(lambda v, f=f, s=s: f(v, s), otypes=[bool]),
            s,
            out="bool",
        )
        for name, f in COMPARISONS.items()
        for s in (2**31, -(2**31) - 1, INF, -INF)
    ]


CASTS = ("aten._to_copy.default", "dim_order_ops._to_dim_order_copy.default")
CAST_VALUES: dict[str, Array] = {
    "float32": floats(0, -0.0, 1, 1.9, 2.5, 100.99, 127, 0.5, 1e-30),
    "int32": np.array([0, 1, 127, 128, 255, 256, -1, -128, -129, 2**24, 70000], np.int32),
    "int8": SMALL,
    "uint8": BYTES,
    "bool": np.array([True, False, True, True, False]),
}


def cast_cases() -> list[Case]:
    """Every stored type into every other one; floats lose their fraction, integers wrap."""
    cases, numbers = [], ~np.isnan(EDGES)
    nearest = np.array(BITS, np.uint32).view(np.float32)[numbers]
    for x in CAST_VALUES.values():
        for target in CAST_VALUES:
            nulls = (None,) * 6
            expect = cast_expectation(target)
            cases += [
                Case(CASTS[0], (x,), expect, nulls, out=target, label=f"to {target}"),
                Case(CASTS[1], (x,), expect, nulls, out=target, label=f"to {target}", copied=True),
                Case(CASTS[0], (x[:0],), expect, nulls, out=target, label=f"to {target}"),
            ]
    negative = floats(-1.9, -0.5, -127.5)
    cases += [
        Case(CASTS[0], (negative,), np.trunc, out=target, label=f"to {target}")
        for target in ("int32", "int8")
    ]
    beyond = floats(3e9, -3e9, 2**31, -(2**31), 2147483520, 1e30, INF, -INF)
    cases += [
        Case(CASTS[0], (beyond,), clamped, out=target, label=f"of large to {target}")
        for target in ("int32", "int64", "int8", "uint8")
    ]
    cases += [
        Case(CASTS[0], (x,), np.asarray, out="float16", label="to float16", rtol=0, atol=0)
        for x in (floats(1.0009766, 65519, 65520, -1e9, 1e-8, 9e-8, INF, NAN), SMALL, BYTES)
    ]
    cases += [
        Case(ROUND_BFLOAT16, (EDGES[numbers],), lambda x: nearest, label="edges", rtol=0, atol=0),
        Case(ROUND_BFLOAT16, (SMALL.astype("float32"),), np.asarray, rtol=0, atol=0),
    ]
    exact = np.array([2**24 + 1, INT32_MAX, INT32_MIN], np.int32)
    cases += [Case(CASTS[0], (exact,), np.asarray, out="float32", label="to float32")]
    return cases


def clamped(x: Array) -> Array:
    """Kernels' conversion of floats: to the nearest int32, of which smaller types have a part."""
    return np.clip(x.astype(np.float64), -(2**31), 2**31 - 1).astype(np.int64)


def cast_expectation(target: str) -> Callable[[Array], Array]:
    if target == "bool":
        return lambda x: x != 0
    if target == "float32":
        return lambda x: x.astype(np.float64)
    return lambda x: np.trunc(x).astype(np.int64)


def special_cases() -> list[Case]:
    """NaN, infinities and -0.0."""
    cases = [
        unary("abs", SPECIAL, np.abs),
        unary("neg", SPECIAL, np.negative),
        unary("relu", SPECIAL, each(lambda v: v if math.isnan(v) or v > 0 else 0)),
        unary("exp", floats(NAN, INF, -INF, 0, 200, -200), np.exp),
        unary("sigmoid", SPECIAL, lambda x: 1 / (1 + np.exp(-x))),
        unary("tanh", SPECIAL, np.tanh),
        unary("sqrt", floats(NAN, INF, -1, 0), np.sqrt),
        unary("rsqrt", floats(NAN, INF, 0, -1), lambda x: 1 / np.sqrt(x)),
        unary("sin", floats(NAN, INF, -INF), np.sin),
        unary("cos", floats(NAN, INF, -INF), np.cos),
        unary("round", SPECIAL, np.round),
        unary("hardswish", floats(NAN, INF), np.asarray),
        unary("gelu", floats(NAN, INF), np.asarray, "none"),
        unary("gelu", floats(NAN, INF), np.asarray, "tanh"),
        unary("leaky_relu", SPECIAL, lambda x: np.where(x < 0, x / 2, x), 0.5),
        unary("hardshrink", SPECIAL, lambda x: np.where(np.abs(x) <= 0.5, 0, x), 0.5),
        unary("clamp", SPECIAL, lambda x: np.clip(x, -0.5, 0.5), -0.5, 0.5),
        unary("clamp", SPECIAL, lambda x: np.minimum(x, 0.5), None, 0.5),
        unary("hardtanh", SPECIAL, lambda x: np.clip(x, -1, 1), -1, 1),
        unary("aten.pow.Tensor_Scalar", SPECIAL, lambda x: x * x, 2),
        unary("aten.pow.Tensor_Scalar", SPECIAL, lambda x: 1 / x, -1),
        unary("aten.pow.Tensor_Scalar", SPECIAL, np.sqrt, 0.5),
        unary("aten.pow.Tensor_Scalar", SPECIAL, lambda x: 1 / np.sqrt(x), -0.5),
        unary("aten.pow.Tensor_Scalar", SPECIAL, lambda x: x**1.5, 1.5),
    ]
    return [replace(case, label="special") for case in cases]


UNARY_CASES = (
    smooth_cases()
    + scalar_cases()
    + integer_cases()
    + truth_cases()
    + compare_cases()
    + beyond_int32_cases()
    + cast_cases()
    + special_cases()
)
