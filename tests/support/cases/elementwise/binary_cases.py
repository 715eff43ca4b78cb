"""Cases of the binary family. Expectations are float64, int64 and `math`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from support.cases.cases import Arg, Array, Case
from support.cases.elementwise.unary_cases import (
    BYTES,
    INF,
    INT32_MAX,
    INT32_MIN,
    NAN,
    SMALL,
    SPECIAL,
    floats,
    spread,
)

Pair = tuple[Array, Array]


def binary(name: str, pair: Pair, expect: Callable[..., Any], *args: Arg, **options: Any) -> Case:
    full = name if "." in name else f"aten.{name}.Tensor"
    return Case(full, pair, expect, args, **options)


def pairs_of(low: float, high: float) -> list[Pair]:
    """Equal shapes, and every way of broadcasting, at odd sizes."""
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((67,), (67,)),
        ((), ()),
        ((1,), (1,)),
        ((0, 5), (0, 5)),
        ((5, 7), (7,)),
        ((7,), (5, 7)),
        ((5, 7), ()),
        ((), (5, 7)),
        ((5, 7), (1, 1)),
        ((5, 7), (5, 1)),
        ((1, 7), (5, 7)),
        ((5, 1), (1, 7)),
        ((3, 1, 5), (2, 1, 7, 1)),
        ((2, 3, 1, 5, 1, 2), (2, 1, 3, 1, 3, 2)),
        ((1, 1, 5, 7), (5, 7)),
        ((0, 1), (1, 5)),
        ((3, 0), ()),
    ]
    return [(spread(a, low, high, 4), spread(b, low, high, 5)) for a, b in shapes]


def arithmetic_cases() -> list[Case]:
    cases = []
    for pair in pairs_of(-4, 4):
        cases += [
            binary("add", pair, lambda x, y: x + y, 1),
            binary("mul", pair, lambda x, y: x * y),
        ]
    for pair in pairs_of(0.5, 4)[:8]:
        cases += [
            binary("sub", pair, lambda x, y: x - 2.5 * y, 2.5),
            binary("div", pair, lambda x, y: x / y),
            binary("aten.minimum.default", pair, lambda x, y: np.where(x < y, x, y)),
            binary("aten.maximum.default", pair, lambda x, y: np.where(x > y, x, y)),
            binary("aten.pow.Tensor_Tensor", pair, np.vectorize(math.pow, otypes=[float])),
        ]
    x, y = spread((67,), -4, 4, 6), spread((67,), -4, 4, 7)
    for alpha in (-1, 0, 0.5, 3.0):
        cases += [binary("add", (x, y), lambda x, y, a=alpha: x + a * y, alpha)]
    cases += [
        binary("add", (x, y), lambda x, y: x + y),
        binary("add", (x, y), lambda x, y: x + y, None),
        binary("sub", (x, y), lambda x, y: x - y),
        binary(
            "aten.pow.Tensor_Tensor",
            (floats(-2, -2, -2, -3, 0, 0, 0, 5, 1, -1), floats(2, 3, -1, 0, 0, 2, 0.5, -2, 99, 99)),
            np.vectorize(math.pow, otypes=[float]),
            label="signs",
        ),
        binary(
            "aten.pow.Tensor_Tensor",
            (floats(-2, 4), floats(0.5, 0.5)),
            np.power,
            label="root of -2",
        ),
        binary(
            "aten.pow.Tensor_Tensor",
            (
                floats(-INF, -INF, -INF, -1, -1, -2, -0.5, 0),
                floats(1.5, -0.5, 3, INF, -INF, INF, INF, INF),
            ),
            np.vectorize(math.pow, otypes=[float]),
            label="infinite",
        ),
        binary(
            "aten.pow.Tensor_Tensor",
            (floats(9, 7, -3, 255, 2, 2, 1, 1), floats(5, 7, 13, 3, 23, -7, 1000, NAN)),
            lambda x, y: np.where(x == 1, 1, x**y),
            label="whole numbers",
            rtol=0,
            atol=0,
        ),
    ]
    return cases


def quotient_cases() -> list[Case]:
    """Floor goes down and trunc to zero, also for exact quotients and all signs."""
    cases = []
    ints = np.array(
        [7, -7, 7, -7, 6, -6, 6, -6, 0, 1, -1, 2**24 + 1, INT32_MAX, INT32_MIN], np.int32
    )
    by = np.array([2, 2, -2, -2, 3, 3, -3, -3, 5, -2, 2, 3, -7, 3], np.int32)
    x, y = spread((67,), -9, 9, 8), spread((67,), 0.25, 4, 9)
    wholes = np.arange(-33, 34, dtype=np.float32)
    for mode, function in (("floor", math.floor), ("trunc", math.trunc)):

        def exact(a: Any, b: Any, f: Any = function) -> int:
            """In exact fractions, since float division may round up to a whole number."""
            quotient = a / b
            near = round(quotient)
            if near * b == a:
                return int(near)
            return int(f(quotient))

        def integer(a: Any, b: Any, m: str = mode) -> int:
            quotient = abs(int(a)) // abs(int(b))
            if (a < 0) == (b < 0):
                return quotient
            return -quotient - (m == "floor" and quotient * abs(int(b)) != abs(int(a)))

        divide = np.vectorize(exact, otypes=[float])
        divide_integers = np.vectorize(integer, otypes=[np.int64])
        name = "aten.div.Tensor_mode"
        cases += [
            binary(name, (x, y), divide, mode),
            binary(name, (x, -y), divide, mode),
            binary(name, (wholes, np.full(67, 3, np.float32)), divide, mode),
            binary(name, (wholes, np.full((), -7, np.float32)), divide, mode),
            binary(name, (wholes / 10, floats(0.1)), tenths(mode), mode, label="tenths"),
            binary(name, (ints, by), divide_integers, mode),
            binary(name, (ints.reshape(2, 7), np.int32(-3).reshape(1)), divide_integers, mode),
            binary(name, (SMALL, np.full(11, -3, np.int8)), divide_integers, mode),
            binary(name, (BYTES, np.full(11, 7, np.uint8)), divide_integers, mode),
            binary(
                name, (floats(1, -1, 0), floats(0, 0, 0)), lambda x, y: x / y, mode, label="by zero"
            ),
        ]
    return cases


def infinite_quotients() -> list[Case]:
    """Build quotients as fmod defines them: x by infinity leaves x, infinity by anything is NaN."""
    x, y = floats(INF, -INF, 7, -7, 7, -7, 0, INF, -INF), floats(2, 2, INF, INF, -INF, -INF, INF)
    by = np.concatenate([y, floats(INF, 0)])
    expected = floats(NAN, NAN, 0, -1, -1, 0, 0, NAN, -INF)
    return [binary("aten.div.Tensor_mode", (x, by), lambda x, y: expected, "floor", label="inf")]


def tenths(mode: str) -> Callable[[Array, Array], Array]:
    """torch floors the exact quotient, but truncates the quotient in float32."""
    if mode == "floor":
        return lambda x, y: np.floor(x / y)
    return lambda x, y: np.trunc((x / y).astype(np.float32))


def integer_cases() -> list[Case]:
    """Exact beyond 2**24, and modulo 2**32 beyond int32."""
    cases = []
    x = np.array([2**24 + 1, -(2**24) - 3, INT32_MAX, INT32_MIN, 46341, -5, 0], np.int32)
    y = np.array([1, 2, 1, -1, 46341, 7, INT32_MIN], np.int32)
    pairs: list[Pair] = [
        (x, y),
        (x.reshape(7, 1), y),
        (x, y[:1]),
        (np.array(5, np.int32), y),
        (SMALL, SMALL[::-1].copy()),
        (BYTES, BYTES[::-1].copy()),
    ]

    def wide(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
        return lambda x, y: function(x.astype(np.int64), y.astype(np.int64))

    for pair in pairs:
        cases += [
            binary("add", pair, wide(lambda x, y: x + y), 1),
            binary("add", pair, wide(lambda x, y: x + 3 * y), 3),
            binary("add", pair, wide(lambda x, y: x + 2 * y), 2.0),
            binary("sub", pair, wide(lambda x, y: x - y), 1),
            binary("mul", pair, wide(lambda x, y: x * y)),
            binary("aten.minimum.default", pair, wide(np.minimum)),
            binary("aten.maximum.default", pair, wide(np.maximum)),
            binary("bitwise_and", pair, wide(np.bitwise_and)),
            binary("bitwise_or", pair, wide(np.bitwise_or)),
        ]
    base, exponent = (
        np.array([2, -2, 3, -1, 1, 0, 7, 2, -1, 1], np.int32),
        np.array([30, 31, 21, 5, 9, 0, 3, -1, -3, -2], np.int32),
    )
    cases += [
        binary(
            "aten.pow.Tensor_Tensor",
            (base, exponent),
            np.vectorize(integer_power, otypes=[np.int64]),
        ),
        binary("div", (x, np.full(7, 4, np.int32)), lambda x, y: x / y, out="float32"),
        binary("add", (x[:2] // 4, floats(0.5, 0.25)), lambda x, y: x + y, 1, out="float32"),
        binary("mul", (SMALL, floats(0.5)), lambda x, y: x * y, out="float32"),
        binary(
            "add",
            (SMALL, np.array([1000], np.int32)),
            lambda x, y: x.astype(np.int64) + y,
            1,
            out="int32",
        ),
        binary("add", (BYTES, SMALL), lambda x, y: x.astype(np.int64) + y, 1, out="int32"),
    ]
    return cases


def integer_power(base: Any, exponent: Any) -> int:
    if exponent >= 0:
        return int(base) ** int(exponent)
    return int(base) ** (int(exponent) % 2) if abs(base) == 1 else 0


def truth_cases() -> list[Case]:
    cases = []
    rng = np.random.default_rng(10)
    for length in (1, 3, 4, 5, 67, 0):
        a, b = rng.random(length) < 0.5, rng.random(length) < 0.5
        cases += [
            binary("aten.logical_and.default", (a, b), lambda x, y: (x * y) != 0),
            binary("aten.logical_or.default", (a, b), lambda x, y: (x * 1 + y) != 0),
            binary("aten.logical_xor.default", (a, b), lambda x, y: (x * 1 + y) == 1),
            binary("bitwise_and", (a, b), lambda x, y: (x * y) != 0),
            binary("bitwise_or", (a, b), lambda x, y: (x * 1 + y) != 0),
            binary("add", (a, b), lambda x, y: (x * 1 + y) != 0, 1),
            binary("mul", (a, b), lambda x, y: (x * y) != 0),
            binary("aten.minimum.default", (a, b), lambda x, y: (x * y) != 0),
        ]
    a, b = rng.random((5, 1)) < 0.5, rng.random((1, 7)) < 0.5
    x, y = floats(0, -0.0, 1, NAN, 1e-30), np.array([1, 1, 0, 5, -1], np.int32)
    cases += [
        binary("aten.logical_and.default", (a, b), lambda x, y: (x * y) != 0),
        binary("bitwise_or", (a, b), lambda x, y: (x * 1 + y) != 0),
        binary("aten.logical_and.default", (x, y), lambda x, y: (x != 0) * (y != 0), out="bool"),
        binary("aten.logical_or.default", (x, y), lambda x, y: (x != 0) + (y != 0), out="bool"),
        binary("mul", (a, spread((5, 7), -1, 1)), lambda x, y: x * y, out="float32"),
        binary("add", (a, BYTES[:7]), lambda x, y: x * 1 + y.astype(int), 1, out="uint8"),
    ]
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
    halves = [(np.round(a), np.round(b)) for a, b in pairs_of(-2, 2)]
    large = np.array([2**24 + 1, 2**24, INT32_MAX, INT32_MIN, 0], np.int32)
    pairs = [
        *halves,
        (SPECIAL, np.roll(SPECIAL, 1)),
        (SPECIAL, SPECIAL),
        (large, np.array([2**24, 2**24 + 1, INT32_MAX - 1, INT32_MAX, 0], np.int32)),
        (large.reshape(5, 1), large),
        (SMALL, BYTES),
        (BYTES, BYTES[::-1].copy()),
        (np.array([True, False, True]), np.array([True, True, False])),
        (np.array([1, 2, 3], np.int32), floats(1, 2.5, 2)),
    ]
    return [
        binary(name, pair, function, out="bool")
        for pair in pairs
        for name, function in COMPARISONS.items()
    ]


def special_cases() -> list[Case]:
    """A NaN on either side of `minimum` wins; infinities cancel to NaN."""
    a, b = floats(NAN, 1, NAN, INF, -INF, INF, 0), floats(1, NAN, NAN, -INF, INF, INF, 0)
    return [
        binary("aten.minimum.default", (a, b), np.minimum),
        binary("aten.minimum.default", (b, floats(2)), np.minimum),
        binary("aten.maximum.default", (a, b), np.maximum),
        binary("aten.maximum.default", (b, floats(2)), np.maximum),
        binary("add", (a, b), lambda x, y: x + y, 1),
        binary("sub", (a, b), lambda x, y: x - y, 1),
        binary("mul", (a, b), lambda x, y: x * y),
        binary("div", (a, b), lambda x, y: x / y),
        binary("div", (floats(1, -1, 0), floats(0, 0, 0)), lambda x, y: x / y),
    ]


def remainder_cases() -> list[Case]:
    """Exact, however large the quotient; fmod goes with the dividend's sign, remainder with the
    divisor's."""
    x = floats(7, -7, 7, -7, 0.3, 1e9, 3e38, -1e30, 5.5, 1, -1, 6, -6, 1e-3, 1e-44, 3.5)
    y = floats(2, 2, -2, -2, 0.1, 0.7, 1e-3, -3e-5, 1e10, INF, INF, 3, 3, 1e-38, 4e-45, 1e-44)
    odd = floats(NAN, 1, INF, -INF, 1, 0, -0.0, 0), floats(1, NAN, 2, 2, 0, 3, 3, -3)
    ints = np.array([7, -7, 7, -7, 2**24 + 1, 6, -6], np.int32)
    by = np.array([2, 2, -2, -2, 7, 3, -3], np.int32)
    cases = []
    for name, function in (("fmod", math.fmod), ("remainder", math_remainder)):
        expect = np.vectorize(function, otypes=[float])
        numpy = np.fmod if name == "fmod" else np.remainder
        cases += [
            *(binary(name, pair, expect) for pair in pairs_of(0.5, 9)[:9]),
            binary(name, (spread((67,), -99, 99), spread((67,), -3, 3, 3)), expect),
            binary(name, (x, y), expect, label="picked", rtol=3e-7, atol=0),
            binary(name, odd, numpy, label="special"),
            binary(name, (ints, by), lambda x, y, f=numpy: f(x.astype(np.int64), y)),
        ]
    return cases


def math_remainder(x: float, y: float) -> float:
    rest = math.fmod(x, y)
    return rest + y if rest and (rest < 0) != (y < 0) else rest


def prelu_cases() -> list[Case]:
    """A slope per channel, and every other way of broadcasting."""

    def prelu(x: Array, slope: Array) -> Array:
        return np.where(x < 0, x * slope, x)

    values = floats(0, -0.0, 1, -1, INF, -INF, NAN, -3e38)
    return [
        *(binary("webpte.prelu.default", pair, prelu) for pair in pairs_of(-4, 4)),
        binary("webpte.prelu.default", (values, floats(0.25)), prelu, label="all"),
    ]


def angle_cases() -> list[Case]:
    """All quadrants, the axes, and infinities on both sides."""
    values = floats(0, -0.0, 1, -1, INF, -INF, 1e-20, 3e38, NAN, 0.5)
    how: dict[str, Any] = {"rtol": 7e-7, "atol": 1e-30}
    angle = np.vectorize(math.atan2, otypes=[float])
    return [
        *(binary("aten.atan2.default", pair, angle, **how) for pair in pairs_of(-3, 3)),
        binary("aten.atan2.default", (values.reshape(-1, 1), values), angle, label="all", **how),
    ]


BINARY_CASES = (
    arithmetic_cases()
    + quotient_cases()
    + infinite_quotients()
    + integer_cases()
    + truth_cases()
    + compare_cases()
    + special_cases()
    + remainder_cases()
    + angle_cases()
    + prelu_cases()
)
