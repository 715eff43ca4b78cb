"""Cases of element-wise int8 ops, and the base of all int8 cases: exact sums, then float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, each
from support.cases.quant.quantize_cases import integers

ADD, RELU, SHUFFLE = (f"et_vk.q8ta_{name}.default" for name in ("add", "relu", "pixel_shuffle"))


ADD_1_1 = "et_vk.add_q8ta_q8ta_q8to.default"  # as ExecuTorch 1.1 called the first


def requantized(value: float, scale: float, zero: int) -> int:
    """Requantize exactly up to the last rounding; the cases avoid ties."""
    return max(-128, min(127, round(value / scale) + zero))


def added(
    x: Array,
    y: Array,
    xs: float,
    xz: int,
    ys: float,
    yz: int,
    scale: float,
    zero: int,
    alpha: float,
) -> Array:
    shape = np.broadcast_shapes(x.shape, y.shape)
    left, right = np.broadcast_to(x, shape), np.broadcast_to(y, shape)

    def one(*at: int) -> int:
        total = (int(left[at]) - xz) * xs + alpha * (int(right[at]) - yz) * ys
        return requantized(total, scale, zero)

    return each(shape, np.int8, one)


def positive(x: Array, xs: float, xz: int, scale: float, zero: int) -> Array:
    return each(
        x.shape, np.int8, lambda *at: requantized(max(0.0, (int(x[at]) - xz) * xs), scale, zero)
    )


def shuffled(x: Array, xs: float, xz: int, inverse: float, zero: int, r: int) -> Array:
    *lead, channels, height, width = x.shape

    def one(*at: int) -> int:
        *before, c, h, w = at
        source = (*before, c * r * r + h % r * r + w % r, h // r, w // r)
        return requantized((int(x[source]) - xz) * xs, 1 / inverse, zero)

    return each((*lead, channels // (r * r), height * r, width * r), np.int8, one)


def add(left: Sequence[int], right: Sequence[int], *numbers: float, label: str = "") -> LiveCase:
    args = (integers(left), integers(right)[..., ::-1] if right else integers(right), *numbers)
    return LiveCase(ADD, [args], added, label=label, exact=False)


def relu(shape: Sequence[int], *numbers: float) -> LiveCase:
    return LiveCase(RELU, [(integers(shape), *numbers)], positive, exact=False)


def shuffle(shape: Sequence[int], *numbers: float) -> LiveCase:
    return LiveCase(SHUFFLE, [(integers(shape), *numbers)], shuffled, exact=False)


# Numbers with halves among their quotients are exact in binary.
EXACT: tuple[Any, ...] = (0.5, 3, 0.25, -4, 0.5, 1, 1.0)
OTHER: tuple[Any, ...] = (0.0207, -7, 0.0311, 9, 0.0413, 5, -0.5)

Q8TA_CASES = [
    LiveCase(ADD_1_1, [(integers((5, 7)), integers((7,)), *OTHER)], added, exact=False),
    LiveCase(ADD_1_1, [(integers((1,)), integers((1,)), *EXACT)], added, exact=False),
    *(add((n,), (n,), *EXACT) for n in (1, 2, 3, 4, 5, 67, 0)),
    *(
        add(left, right, *OTHER)
        for left, right in (
            ((2, 3, 5), (2, 3, 5)),
            ((2, 3, 5), (3, 1)),
            ((5,), (3, 5)),
            ((2, 1, 5), (1, 3, 1)),
            ((1, 5), (5,)),
            ((), (3, 4)),
            ((), ()),
        )
    ),
    LiveCase(
        ADD,
        [(integers((n, 3)), integers((n, 3)), *EXACT) for n in (9, 4, 1, 0, 5)],
        added,
        exact=False,
    ),
    *(relu((n,), 0.5, 3, 0.25, -128) for n in (1, 3, 4, 67, 0)),
    relu((2, 3, 5), 0.031, -12, 0.0171, 4),
    relu((), 0.5, -3, 1.0, 2),
    *(
        shuffle(shape, 0.5, 3, *behind)
        for shape, *behind in (
            ((1, 4, 2, 2), 2.0, 3, 2),
            ((2, 8, 3, 5), 1.0, -9, 2),
            ((1, 18, 2, 3), 4.0, 0, 3),
            ((4, 3, 3), 2.0, 1, 2),
            ((2, 2, 3, 4, 3, 1), 2.0, 1, 2),
            ((2, 3, 3, 5), 1.0, 0, 1),
            ((0, 4, 2, 2), 1.0, 0, 2),
        )
    ),
    LiveCase(
        SHUFFLE,
        [(integers((n, 4, 3, w)), 0.5, 1, 1.0, 2, 2) for n, w in ((2, 5), (1, 1), (2, 3))],
        shuffled,
        exact=False,
    ),
]
