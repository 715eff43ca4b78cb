"""Cases of XNNPACK's element-wise operators on bytes: integers, and halves that are ties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8_linear_cases import bytes_of
from support.cases.live_cases import LiveCase, each

ADD, SUB, MUL = (f"webpte.q8_{name}.default" for name in ("add", "sub", "mul"))

Numbers = tuple[float, int, float, int, float, int, int, int]


def factors(a_scale: float, b_scale: float, out_scale: float) -> tuple[int, int, int]:
    """Both ratios of scales as integers over 2**shift; the larger has 21 bits."""
    ratios = [Fraction(float(np.float32(s) / np.float32(out_scale))) for s in (a_scale, b_scale)]
    shift = 20 - math.floor(math.log2(max(ratios)))
    return round(ratios[0] * 2**shift), round(ratios[1] * 2**shift), shift


def expected(op: str, out: str) -> Any:
    def expect(a: Array, b: Array, *numbers: Any) -> Array:
        a_scale, a_zero, b_scale, b_zero, out_scale, zero, low, high = numbers
        shape = np.broadcast_shapes(a.shape, b.shape)
        left, right = np.broadcast_to(a, shape), np.broadcast_to(b, shape)
        first, second, shift = factors(a_scale, b_scale, out_scale)
        if op == SUB:
            second = -second
        ratio = np.float32(a_scale) * np.float32(b_scale) / np.float32(out_scale)

        def one(*at: int) -> int:
            x, y = int(left[at]) - a_zero, int(right[at]) - b_zero
            if op == MUL:
                value = round(float(np.float32(x * y) * ratio))
            else:
                value = math.floor(Fraction(x * first + y * second, 2**shift) + Fraction(1, 2))
            return max(low, min(high, value + zero))

        return each(shape, np.dtype(out), one)

    return expect


def binary(
    op: str,
    shapes: Sequence[tuple[Sequence[int], Sequence[int]]],
    numbers: Numbers,
    types: tuple[str, str, str] = ("int8", "int8", "int8"),
) -> LiveCase:
    """`shapes` of a and b, a pair per step."""
    given = [
        (bytes_of(a, types[0]), bytes_of(b, types[1])[..., ::-1] if b else bytes_of(b, types[1]))
        for a, b in shapes
    ]
    steps = [(*pair, *numbers) for pair in given]
    return LiveCase(op, steps, expected(op, types[2]), types[2], exact=False)


# Powers of two give ties; the others differ by much, and reach the bounds.
TIES: Numbers = (0.5, 3, 0.25, -4, 1.0, 1, -128, 127)
OTHER: Numbers = (0.0207, -7, 0.311, 9, 0.1413, 5, -128, 127)
SMALL: Numbers = (0.002, 17, 0.9, -128, 0.77, -100, -90, 101)
UNSIGNED: Numbers = (0.0207, 130, 0.0311, 7, 0.0413, 200, 3, 250)

Q8_BINARY_CASES = [
    *(
        binary(op, [((n,), (n,))], numbers)
        for op in (ADD, SUB, MUL)
        for n, numbers in ((1, TIES), (4, OTHER), (67, TIES), (257, OTHER), (256, SMALL), (0, TIES))
    ),
    *(
        binary(op, [pair], OTHER)
        for op in (ADD, MUL)
        for pair in (
            ((2, 3, 5), (2, 3, 5)),
            ((2, 3, 5), (3, 1)),
            ((5,), (3, 5)),
            ((2, 1, 5), (1, 3, 1)),
            ((), (3, 4)),
            ((), ()),
            ((0, 5), (5,)),
        )
    ),
    *(binary(op, [((7, 11), (11,))], UNSIGNED, ("uint8",) * 3) for op in (ADD, SUB, MUL)),
    binary(
        SUB, [((3, 5), (3, 1))], (0.02, 3, 0.03, 140, 0.05, 9, 0, 127), ("int8", "uint8", "int8")
    ),
    binary(ADD, [((n, 3), (n, 3)) for n in (9, 4, 1, 0, 5)], TIES),
    binary(MUL, [((n, 3), (3,)) for n in (9, 4, 1, 0, 5)], OTHER),
]
