"""Affine quantization: references against loops and PyTorch's results, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, check_reference, dispatch_of, lowered
from support.cases.quant.quantize_cases import (
    AFFINE,
    BY_NUMBERS,
    BY_TENSORS,
    CHANNEL,
    TIES,
    TOKEN,
    both,
    integers,
    name_of,
    quantize,
    reals,
    scales,
    zeros,
)
from webpte.errors import GraphError, UnsupportedError


def fixed(op: str, args: tuple[Any, ...], out: list[Any], dtype: str) -> LiveCase:
    return LiveCase(op, [args], lambda *_: np.array(out), dtype, exact=False)


STEPS = np.array([-0.625, -0.375, -0.125, 0.125, 0.375, 0.625], np.float32)
PER_ROW = np.array([[0.25], [0.5]], np.float32)
ONES = np.array([[1], [1]], np.int32)


@pytest.mark.parametrize(
    "case",
    [
        # What PyTorch 2.13 gives: halves go to the even side, also below zero.
        fixed(
            name_of("quantize", BY_NUMBERS),
            (STEPS, 0.25, 1, -128, 127, None),
            [-1, -1, 1, 1, 3, 3],
            "int8",
        ),
        # Per token the zero is added first, which makes other sides even.
        fixed(
            name_of("quantize", TOKEN),
            (np.stack([STEPS, 2 * STEPS]), PER_ROW, ONES, -128, 127, None),
            [[-2, 0, 0, 2, 2, 4], [-2, 0, 0, 2, 2, 4]],
            "int8",
        ),
        fixed(
            name_of("quantize", BY_NUMBERS),
            (np.array([-1, 0, 12.7, 1e9], np.float32), 0.1, 128, 0, 255, None),
            [118, 128, 255, 255],
            "uint8",
        ),
        fixed(
            name_of("dequantize", BY_NUMBERS),
            (np.array([-128, 0, 127], np.int8), 0.1, -3, -128, 127, None, None),
            [-12.5, 0.3, 13.0],
            "float32",
        ),
    ],
    ids=str,
)
def test_by_hand(case: LiveCase) -> None:
    check_reference(case)


def overrides(case: LiveCase) -> dict[str, float]:
    return dict(dispatch_of(case).overrides)


@pytest.mark.parametrize(
    ("case", "shared"),
    [
        (both(CHANNEL, (3, 8), scales(3), None, 0)[0], True),
        (both(CHANNEL, (3, 6), scales(3), None, 0)[0], False),
        (both(CHANNEL, (3, 8), scales(8), None, 1)[0], False),
        (both(CHANNEL, (8, 3, 4), scales(3), None, 1)[0], True),
        (both(TOKEN, (3, 8), scales(3, 1), None)[0], True),
        (both(AFFINE, (4, 8), [2, 8], scales(2, 1), None)[0], True),
        (both(BY_TENSORS, (3, 5), scales(1), None)[0], True),
        (both(BY_NUMBERS, (3, 5), 0.1, 0)[0], True),
    ],
    ids=str,
)
def test_quads_that_share_a_scale(case: LiveCase, shared: bool) -> None:
    assert overrides(case)["SHARED"] == shared


def test_an_empty_tensor_needs_no_kernel() -> None:
    for case in both(BY_NUMBERS, (0, 3), 0.1, 0):
        assert not lowered(case)[0].dispatches()


X, Q = reals((4, 6)), integers((4, 6))


def refused(verb: str, kind: str, *args: Any, out: str = "int8", like: Array = X) -> LiveCase:
    return LiveCase(name_of(verb, kind), [args], lambda *_: np.zeros(like.shape), out, exact=False)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (refused("quantize", BY_NUMBERS, X, 0.1, 0, -129, 127), "-129 to 127 is not a range"),
        (refused("quantize", BY_NUMBERS, X, 0.1, 0, 5, 4), "5 to 4 is not a range"),
        (refused("quantize", BY_NUMBERS, X, 0.1, 0, -1, 9, out="uint8"), "not a range of uint8"),
        (refused("quantize", BY_NUMBERS, X, 0, 0, -128, 127), "0 is not a scale"),
        (refused("quantize", BY_TENSORS, X, scales(2), None, -128, 127), "for 1 blocks"),
        (refused("quantize", BY_TENSORS, X, zeros(1), None, -128, 127), "scales are floats"),
        (refused("quantize", CHANNEL, X, scales(5), None, 0, -128, 127), "for 4 blocks"),
        (refused("quantize", CHANNEL, X, scales(4), zeros(3), 0, -128, 127), "for 4 blocks"),
        (refused("quantize", CHANNEL, X, scales(4), None, 2, -128, 127), "dim 2 is outside"),
        (refused("quantize", TOKEN, X, scales(6), None, -128, 127), "for 4 blocks"),
        (refused("quantize", AFFINE, X, [3, 6], scales(2), None), r"blocks of \[3, 6\]"),
        (refused("quantize", AFFINE, X, [2], scales(2), None), r"blocks of \[2\]"),
        (refused("quantize", AFFINE, X, [2, 0], scales(2), None), r"blocks of \[2, 0\]"),
    ],
)
def test_refuses(case: LiveCase, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        lowered(case)


@pytest.mark.parametrize(
    "case",
    [
        refused("quantize", BY_NUMBERS, Q, 0.1, 0, -128, 127),
        refused("quantize", BY_NUMBERS, X, 0.1, 0, -128, 127, out="float32"),
        refused("dequantize", BY_NUMBERS, X, 0.1, 0, -128, 127, out="float32"),
        refused("dequantize", BY_NUMBERS, Q, 0.1, 0, -128, 127, out="int8"),
    ],
)
def test_only_between_floats_and_integers(case: LiveCase) -> None:
    with pytest.raises(UnsupportedError, match="only floats and int8"):
        lowered(case)


def test_ties_are_ties() -> None:
    """Otherwise the cases that use them could not fail."""
    halves = TIES / np.float32(0.125) % 1 == 0.5
    assert halves.sum() == 40
    assert quantize(BY_NUMBERS, [(TIES, 0.125, 1, -128, 127)]).expected[0][0][0] == -19
