"""Element-wise int8 ops: references, reading modes, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.int8.q8ta_cases import ADD, EXACT, RELU, SHUFFLE, add, shuffle
from support.cases.live_cases import LiveCase, check_reference, dispatch_of, lowered
from support.cases.quant.quantize_cases import integers
from webpte.errors import GraphError, WebpteError


def test_by_hand() -> None:
    """Compare with PyTorch 2.13: sums of 0.05s over 0.1 are near ties and round either way."""
    x, y = np.arange(-5, 6, dtype=np.int8), np.zeros(11, np.int8)
    args = (x, y, 0.05, 0, 0.05, 0, 0.1, 0, 1.0)
    wanted = np.array([-2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2])
    check_reference(LiveCase(ADD, [args], lambda *_: wanted, exact=False))


@pytest.mark.parametrize(
    ("case", "x_flat", "y_flat"),
    [
        (add((3, 5), (3, 5), *EXACT), True, True),
        (add((1, 5), (5,), *EXACT), True, True),
        (add((3, 5), (5,), *EXACT), True, False),
        (add((3, 1), (3, 5), *EXACT), False, True),
        (add((1,), (1, 1), *EXACT), True, True),
        (shuffle((1, 4, 2, 2), 0.5, 0, 1.0, 0, 2), False, False),
        (shuffle((1, 4, 2, 2), 0.5, 0, 1.0, 0, 1), True, True),
    ],
    ids=str,
)
def test_flat_where_possible(case: LiveCase, x_flat: bool, y_flat: bool) -> None:
    overrides = dict(dispatch_of(case).overrides)
    assert (overrides["X_FLAT"], overrides["Y_FLAT"]) == (x_flat, y_flat)


def refused(op: str, *args: Any, out: str = "int8") -> LiveCase:
    return LiveCase(op, [args], lambda *_: np.zeros((2, 3)), out, exact=False)


X, FLOATS = integers((2, 3)), np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (refused(ADD, X, integers((2, 4)), *EXACT), "do not broadcast"),
        (refused(ADD, X, FLOATS, *EXACT), "is float32; only int8"),
        (refused(ADD, X, X, *EXACT, out="uint8"), "is uint8; only int8"),
        (refused(ADD, X, X, *EXACT[:4], 0, *EXACT[5:]), "0 is not a scale"),
        (refused(RELU, FLOATS, 0.1, 0, 0.1, 0), "is float32; only int8"),
        (refused(SHUFFLE, integers((3, 2, 2)), 0.1, 0, 10.0, 0, 2), "cannot be shuffled by 2"),
        (refused(SHUFFLE, X, 0.1, 0, 10.0, 0, 1), "cannot be shuffled by 1"),
        (refused(SHUFFLE, integers((4, 2, 2)), 0.1, 0, 10.0, 0, 0), "cannot be shuffled by 0"),
    ],
)
def test_refuses(case: LiveCase, message: str) -> None:
    with pytest.raises(WebpteError, match=message):
        lowered(case)


def test_the_file_must_declare_what_comes_out() -> None:
    args = (X, integers((1, 3)), *EXACT)
    with pytest.raises(GraphError, match="declares"):
        lowered(LiveCase(ADD, [args], lambda *_: np.zeros((4, 3)), exact=False))
