"""Linear layers of int8: references, the choice of kernels, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.int8.q8ta_linear_cases import (
    FLOAT,
    GEMV,
    LINEAR,
    WRONG_SUMS,
    linear,
    per_channel,
)
from support.cases.live_cases import Const, LiveCase, check_reference, lowered
from support.cases.quant.quantize_cases import integers
from webpte.engine.ops.core.target import GPU
from webpte.engine.ops.int8.int8 import FLAT, FULL, LARGE, MAX_TERMS, SMALL, Int8Tile, choose_tile
from webpte.errors import WebpteError


@pytest.mark.parametrize(
    ("activation", "wanted"),
    [("none", [-128, -6, 9, 127]), ("relu", [3, 3, 9, 127])],
)
def test_by_hand(activation: str, wanted: list[int]) -> None:
    """1 to 3 with a zero of 1: (0, 1, 2) times each row, by 0.5 and a scale, plus the bias."""
    weight = np.array([[9, -9, -99], [5, -3, -3], [1, 2, -1], [0, 127, 127]], np.int8)
    scales, bias = np.array([4, 1, 2, 8, 9], np.float32), np.array([0, 0, 3, 0], np.float32)
    args = (
        *(np.array([[1, 2, 3]], np.int8), 0.5, 1),
        *(Const(weight), Const(WRONG_SUMS), Const(scales)),
        *(0.5, 3, Const(bias), activation),
    )
    # The second: (0 * 5 + 1 * -3 + 2 * -3) * 0.5 * 1 / 0.5 + 3; the third: (0 + 3) / 0.5 + 3.
    check_reference(LiveCase(LINEAR, [args], lambda *_: np.array([wanted]), "int8", exact=False))


def kernels(case: LiveCase) -> list[str]:
    return [dispatch.kernel for dispatch in lowered(case)[0].dispatches()]


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (linear(LINEAR, (16, 8), 8), ["q8ta_linear_skinny"]),
        (linear(GEMV, (17, 8), 8), ["q8ta_linear"]),
        (linear(LINEAR, (1, 8), 6), ["q8ta_linear_skinny", "quantize"]),
        (linear(LINEAR, (17, 8), 6), ["q8ta_linear", "quantize"]),
        (linear(FLOAT, (17, 8), 6), ["q8ta_linear"]),
        (linear(LINEAR, (0, 8), 4), []),
    ],
    ids=str,
)
def test_bytes_need_a_second_step_only_where_rows_are_not_whole_words(
    case: LiveCase, wanted: list[str]
) -> None:
    assert kernels(case) == wanted


@pytest.mark.parametrize(
    ("rows", "columns", "copies", "wanted"),
    [
        (16, 10**6, 1, FLAT),
        (17, 64, 1, SMALL),
        (64, 64, FULL - 1, SMALL),
        (64, 64, FULL, LARGE),
        (65, 64, FULL // 2, LARGE),
    ],
)
def test_tiles(rows: int, columns: int, copies: int, wanted: Int8Tile) -> None:
    assert choose_tile(rows, columns, GPU, copies) == wanted


def test_sums_that_do_not_fit_32_bits_run_on_the_host() -> None:
    case = linear(FLOAT, (1, MAX_TERMS + 1), 1)
    (step,) = lowered(case)[0].calls
    assert step.host is not None
    assert "do not fit 32 bits" in step.host
    assert (MAX_TERMS + 1) * 128 * 255 >= 2**31 > MAX_TERMS * 128 * 255
    check_reference(case)


WEIGHT, SUMS, SCALES = Const(integers((6, 5))), Const(WRONG_SUMS), Const(per_channel(6))
X = integers((2, 5))


def refused(*args: Any, op: str = LINEAR, out: str = "int8") -> LiveCase:
    return LiveCase(op, [args], lambda *_: np.zeros((2, 6)), out, exact=False)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            refused(integers((2, 4)), 0.1, 0, WEIGHT, SUMS, SCALES, 0.1, 0),
            r"weights \[6, 5\] do not fit",
        ),
        (
            refused(integers((2, 6)), 0.1, 0, WEIGHT, SUMS, SCALES, 0.1, 0),
            r"weights \[6, 5\] do not fit",
        ),
        (refused(X, 0.1, 0, WEIGHT, SUMS, Const(per_channel(5)), 0.1, 0), "for 6 channels"),
        (refused(X, 0.1, 0, WEIGHT, SUMS, SCALES, 0.1, 0, Const(per_channel(4))), "bias"),
        (refused(X, 0.1, 0, WEIGHT, SUMS, SCALES, 0.1, 0, None, "gelu"), "activation='gelu'"),
        (refused(X, 0.1, 0, WEIGHT, SUMS, SCALES, 0.0, 0), "0.0 is not a scale"),
        (refused(X, 0.1, 0, WEIGHT, SUMS, SCALES, 0.1, 0, out="uint8"), "only int8"),
        (refused(X.astype(np.uint8), 0.1, 0, WEIGHT, SUMS, SCALES, 0.1, 0), "only int8"),
        (refused(X, 0.1, 0, WEIGHT, SUMS, WEIGHT, 0.1, 0), "scales are floats"),
        (refused(X, 0.1, 0, WEIGHT, SUMS, SCALES, op=FLOAT), "makes floats"),
    ],
)
def test_refuses(case: LiveCase, message: str) -> None:
    with pytest.raises(WebpteError, match=message):
        lowered(case)
