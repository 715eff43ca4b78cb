"""Quantized embeddings: references, the fast variant, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.live_cases import Const, LiveCase, check_reference, dispatch_of, lowered
from support.cases.move.indexing_cases import indices
from support.cases.quant.embedding_quantized_cases import DECOMPOSED, Q4GSW, of_kind, q4gsw, table
from webpte.errors import ExecutionError, GraphError


def test_nibbles_by_hand() -> None:
    """0x2f is 15 and 2 with the low half first; both halves count from -8."""
    weight, scales = np.array([[0x2F, 0x80]], np.uint8), np.array([[0.5, 2]], np.float32)
    for linear, wanted in ((True, [3.5, -3.0, -16.0, 0.0]), (False, [-3.0, 3.5, 0.0, -16.0])):
        check_reference(
            LiveCase(
                Q4GSW,
                [(Const(weight), Const(scales), 2, np.zeros(1, np.int32), linear)],
                lambda *_, row=wanted: np.array([row]),
                out="float32",
                exact=False,
            )
        )


@pytest.mark.parametrize(
    ("width", "size", "extra", "whole"),
    [(32, 32, 0, 1), (12, 4, 0, 1), (12, 2, 0, 0), (10, 5, 0, 0), (12, 4, 1, 0), (12, 4, 2, 1)],
)
def test_whole_quads_where_they_fit(width: int, size: int, extra: int, whole: int) -> None:
    dispatch = dispatch_of(q4gsw(width, size, (3,), linear=True, extra=extra))
    assert dict(dispatch.overrides) == {
        "BITS": 4,
        "HIGH_FIRST": 0,
        "OFFSET": 8,
        "SIGNED": 0,
        "WHOLE": whole,
        "ZERO_POINTS": 0,
        "WRAPS": False,
    }


@pytest.mark.parametrize(
    ("kind", "width", "whole"),
    [("2bit", 12, 1), ("4bit", 12, 1), ("byte", 12, 1), ("byte", 10, 0), ("4bit", 10, 0)],
)
def test_whole_quads_of_other_numbers(kind: str, width: int, whole: int) -> None:
    dispatch = dispatch_of(of_kind(kind, width, 1, (3,), rank=1))
    assert dict(dispatch.overrides)["WHOLE"] == whole


@pytest.mark.parametrize("outside", [7, -1, -8])
def test_out_of_range_is_an_error_of_the_reference(outside: int) -> None:
    weight, scales = table(7, 8, 2)
    args = (Const(weight), Const(scales), 4, np.array([outside], np.int32), True)
    case = LiveCase(Q4GSW, [args], lambda *_: np.zeros((1, 8)), out="float32", exact=False)
    with pytest.raises(ExecutionError, match="out of bounds"):
        check_reference(case)


def refused(op: str, *args: Any, width: int = 8) -> LiveCase:
    return LiveCase(op, [args], lambda *_: np.zeros((2, width)), out="float32", exact=False)


WEIGHT, SCALES = (Const(array) for array in table(7, 8, 2))
INDEX = indices(7, 2)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (refused(Q4GSW, WEIGHT, SCALES, 3, INDEX, True), "does not have rows of 8"),
        (refused(Q4GSW, WEIGHT, SCALES, 0, INDEX, True), "does not have rows of 8"),
        (refused(Q4GSW, WEIGHT, SCALES, 8, INDEX, True, width=9), "does not have rows of 9"),
        (refused(Q4GSW, SCALES, SCALES, 4, INDEX, True), "must be bytes"),
        (refused(DECOMPOSED, WEIGHT, SCALES, None, 0, 15, INDEX, None), "are -8 to 7"),
        (refused(DECOMPOSED, WEIGHT, SCALES, Const(np.zeros(3)), -8, 7, INDEX), "does not have"),
    ],
)
def test_refuses(case: LiveCase, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        lowered(case)
