"""XNNPACK's operators on bytes: the choice of kernels, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.int8.q8_binary_cases import ADD, MUL, OTHER
from support.cases.int8.q8_conv_cases import CONV, MIDDLE, SAME, TRANSPOSED, UNSIGNED, conv
from support.cases.int8.q8_linear_cases import DYNAMIC, LINEAR, bytes_of, dynamic, linear
from support.cases.int8.q8_mean_cases import MEAN
from support.cases.int8.q8_table_cases import TABLE
from support.cases.live_cases import LiveCase, lowered
from webpte.errors import WebpteError


def kernels(case: LiveCase) -> list[str]:
    return [dispatch.kernel for dispatch in lowered(case)[0].dispatches()]


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (conv((1, 8, 6, 6), 8, **SAME), ["q8ta_conv_pack", "q8ta_conv"]),
        (conv((1, 8, 5, 5), 8, **SAME), ["q8ta_conv_pack", "q8ta_conv", "quantize"]),
        (conv((1, 8, 6, 6), 8, (1, 1)), ["q8ta_conv"]),
        (conv((1, 8, 6, 6), 8, **SAME, **MIDDLE), ["q8ta_conv_pack", "q8ta_conv"]),
        (conv((1, 8, 6, 6), 8, **SAME, **UNSIGNED), ["q8ta_conv_direct"]),
        (conv((1, 8, 6, 6), 8, groups=8, depthwise=True), ["q8ta_conv_direct"]),
        (linear((1, 16), 8), ["q8ta_linear_skinny"]),
        (linear((40, 16), 8), ["q8ta_linear"]),
        (linear((40, 16), 7), ["q8ta_linear", "quantize"]),
        (linear((40, 16), 8, **UNSIGNED), ["q8ta_linear_simple"]),
        (dynamic((1, 16), 8), ["quantize", "q8ta_linear_skinny"]),
        (dynamic((40, 16), 7), ["quantize", "q8ta_linear"]),
    ],
    ids=str,
)
def test_kernels(case: LiveCase, wanted: list[str]) -> None:
    assert kernels(case) == wanted


X, W = bytes_of((1, 4, 5, 5), "int8"), bytes_of((6, 3, 3, 4), "int8")
SCALE, BIAS = np.full(6, 0.01, np.float32), np.zeros(6, np.int32)
BEHIND: tuple[Any, ...] = (0, -128, 127, [3, 3], [1, 1], [0, 0, 0, 0], [1, 1], 1, False)
ROWS, MATRIX, FLOATS = (
    bytes_of((3, 4), "int8"),
    bytes_of((6, 4), "int8"),
    np.ones((3, 4), np.float32),
)
NUMBERS = (0, -128, 127)


def of_conv(*changes: tuple[int, Any]) -> tuple[Any, ...]:
    args: list[Any] = [X, 0, W, 0, SCALE, BIAS, *BEHIND]
    for place, value in changes:
        args[place] = value
    return tuple(args)


def of_linear(*changes: tuple[int, Any]) -> tuple[Any, ...]:
    args: list[Any] = [ROWS, 0, MATRIX, 0, SCALE, BIAS, *NUMBERS]
    for place, value in changes:
        args[place] = value
    return tuple(args)


def of_sum(*changes: tuple[int, Any]) -> tuple[Any, ...]:
    args: list[Any] = [ROWS, ROWS, *OTHER]
    for place, value in changes:
        args[place] = value
    return tuple(args)


STEPS, ZEROS = np.ones((3, 1), np.float32), np.zeros((3, 1), np.int8)


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        (CONV, of_conv((0, X[0])), "an input of rank 3"),
        (CONV, of_conv((0, X.astype(np.int32))), "is int32; int8 and uint8"),
        (CONV, of_conv((2, W[:, :2])), "do not fit an input"),
        (CONV, of_conv((13, 3)), "4 channels in 3 groups"),
        (CONV, of_conv((14, True)), "4 channels in 1 groups"),
        (CONV, of_conv((11, [1, 1])), "is not .top, left, bottom, right."),
        (CONV, of_conv((12, [3, 3])), "does not fit an input"),
        (CONV, of_conv((4, SCALE[:5])), "scale .5. for 6 channels"),
        (CONV, of_conv((5, SCALE)), "bias is int32, not float32"),
        (CONV, of_conv((1, 128)), "x_zero=128 is no int8"),
        (CONV, of_conv((7, 3), (8, 2)), "3 to 2 is not a range"),
        (TRANSPOSED, (*of_conv()[:12], [1, 1], [1, 1], 1), "must be below stride"),
        (LINEAR, of_linear((2, MATRIX[:, :3])), "do not fit rows"),
        (LINEAR, of_linear((3, -129)), "weight_zero=-129 is no int8"),
        (LINEAR, of_linear((7, -129)), "-129 to 127 is not a range"),
        (DYNAMIC, (ROWS, STEPS, ZEROS, MATRIX, SCALE, None), "are floats"),
        (DYNAMIC, (FLOATS, STEPS[:2], ZEROS, MATRIX, SCALE, None), "2 scales and 3 zeros for 3"),
        (DYNAMIC, (FLOATS, STEPS, ZEROS, MATRIX[:, :3], SCALE, None), "do not fit rows"),
        (ADD, of_sum((1, bytes_of((3, 5), "int8"))), "do not broadcast"),
        (ADD, of_sum((0, FLOATS)), "is float32; int8 and uint8"),
        (ADD, of_sum((2, 0.0)), "a_scale=0.0 is not a scale"),
        (ADD, of_sum((6, 1e-4)), "are too far apart"),
        (MUL, of_sum((6, 1e-6)), "are too far apart"),
        (MEAN, (ROWS[0], 0.1, 0, 0.1, *NUMBERS), "no height and width"),
        (MEAN, (bytes_of((3, 0), "int8"), 0.1, 0, 0.1, *NUMBERS), "no height and width"),
        (TABLE, (ROWS, bytes_of((255,), "int8")), "it has 256 entries"),
        (TABLE, (ROWS, bytes_of((256,), "uint8")), "uint8 entries for int8 results"),
    ],
)  # fmt: skip
def test_errors(op: str, args: tuple[Any, ...], message: str) -> None:
    out = "float32" if op == DYNAMIC else "int8"
    case = LiveCase(op, [args], lambda *_: np.zeros((3, 6)), out, exact=False)
    with pytest.raises(WebpteError, match=message):
        lowered(case)
