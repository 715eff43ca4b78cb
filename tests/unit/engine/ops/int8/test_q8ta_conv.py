"""Convolutions of int8: references, the choice of kernels, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.int8.q8ta_conv_cases import CONV, DEPTHWISE, POINTWISE, TRANSPOSED, conv
from support.cases.int8.q8ta_linear_cases import WRONG_SUMS, per_channel
from support.cases.live_cases import Const, LiveCase, check_reference, lowered
from support.cases.quant.quantize_cases import integers
from webpte.engine.ops.core.records import Dispatch
from webpte.errors import WebpteError


def test_padding_adds_nothing() -> None:
    """An image of x's zero gives the bias everywhere, at the border as well."""
    x, weight = np.full((1, 1, 3, 3), 9, np.int8), Const(integers((1, 12)))
    ones = Const(np.ones(4, np.float32))
    lists = ([3, 3], [1, 1], [1, 1], [1, 1], 1, "none")
    args = (x, 0.5, 9, weight, Const(WRONG_SUMS), ones, 0.25, -3, ones, *lists)
    check_reference(LiveCase(CONV, [args], lambda *_: np.ones((1, 1, 3, 3)), exact=False))


def dispatches(case: LiveCase) -> list[Dispatch]:
    return list(lowered(case)[0].dispatches())


TILES, PACK, DIRECT, BYTES = "q8ta_conv", "q8ta_conv_pack", "q8ta_conv_direct", "quantize"


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (conv(CONV, (1, 8, 6, 6), 8, padding=(1, 1)), [PACK, TILES]),
        (conv(CONV, (1, 8, 5, 5), 8, padding=(1, 1)), [PACK, TILES, BYTES]),
        (conv(CONV, (1, 1, 6, 6), 7), [DIRECT]),
        (conv(CONV, (1, 1, 6, 6), 8), [PACK, TILES]),
        (conv(CONV, (1, 8, 6, 6), 7), [PACK, TILES]),
        (conv(POINTWISE, (1, 9, 2, 6), 8, (1, 1)), [TILES]),
        (conv(POINTWISE, (1, 9, 3, 3), 8, (1, 1)), [PACK, TILES, BYTES]),
        (conv(DEPTHWISE, (1, 8, 9, 9), 8, (9, 9), groups=8), [DIRECT]),
        (conv(TRANSPOSED, (1, 8, 4, 4), 8, stride=(2, 2)), [PACK, TILES, BYTES]),
        (conv(TRANSPOSED, (1, 8, 4, 4), 8, padding=(1, 1)), [PACK, TILES]),
        (conv(TRANSPOSED, (1, 8, 4, 4), 8, stride=(2, 2), groups=8), [DIRECT]),
        (conv(CONV, [(1, 8, 6, 6), (0, 8, 6, 6)], 8), [PACK, TILES]),
    ],
    ids=str,
)
def test_kernels(case: LiveCase, wanted: list[str]) -> None:
    assert [dispatch.kernel for dispatch in dispatches(case)] == wanted


@pytest.mark.parametrize(
    ("case", "window"),
    [
        (conv(DEPTHWISE, (1, 4, 6, 8), 4, groups=4, padding=(1, 1)), 6),
        (conv(DEPTHWISE, (1, 4, 6, 7), 4, groups=4, padding=(1, 1)), 0),
        (conv(DEPTHWISE, (1, 4, 6, 9), 4, groups=4, stride=(2, 2)), 9),
        (conv(DEPTHWISE, (1, 2, 3, 48), 2, groups=2, stride=(1, 11)), 0),
    ],
    ids=str,
)
def test_windows_where_a_word_is_in_one_row(case: LiveCase, window: int) -> None:
    assert dict(dispatches(case)[0].types)["WINDOW"] == str(window)


X = integers((1, 4, 5, 5))
NUMBERS = (0.1, 0)
WEIGHT, SUMS, SCALES = Const(integers((6, 36))), Const(WRONG_SUMS), Const(per_channel(6))
GEOMETRY: tuple[Any, ...] = ([3, 3], [1, 1], [0, 0], [1, 1])


def refused(
    *,
    op: str = CONV,
    x: Any = X,
    weight: Any = WEIGHT,
    scales: Any = SCALES,
    bias: Any = None,
    geometry: tuple[Any, ...] = GEOMETRY,
    groups: int = 1,
    activation: str = "none",
    out: str = "int8",
) -> LiveCase:
    behind = (*geometry, groups, activation)
    args = (x, *NUMBERS, weight, SUMS, scales, *NUMBERS, bias, *behind)
    return LiveCase(op, [args], lambda *_: np.zeros((1, 6, 3, 3)), out, exact=False)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (refused(x=integers((4, 5, 5))), "an input of rank 3"),
        (refused(x=X.astype(np.float32)), "only int8"),
        (refused(out="uint8"), "only int8"),
        (refused(weight=Const(integers((6, 35)))), r"weights \[6, 35\]"),
        (refused(weight=Const(integers((6, 4, 3, 3)))), r"weights \[6, 4, 3, 3\]"),
        (refused(groups=3), "4 channels in 3 groups"),
        (refused(groups=0), "4 channels in 0 groups"),
        (refused(weight=Const(integers((7, 36))), groups=2), "in 2 groups"),
        (refused(scales=Const(per_channel(5))), "for 6 channels"),
        (refused(bias=Const(per_channel(5))), "for 6 channels"),
        (refused(activation="tanh"), "activation='tanh'"),
        (refused(geometry=([6, 6], [1, 1], [0, 0], [1, 1])), "weights"),
        (refused(geometry=([3, 3], [1, 1], [0, 0], [3, 3])), "does not fit an input"),
        (refused(geometry=([3, 3], [0, 1], [0, 0], [1, 1])), "stride"),
        (refused(op=DEPTHWISE, weight=Const(integers((3, 3, 4))), groups=2), "in 2 groups"),
        (refused(op=DEPTHWISE, weight=Const(integers((3, 3, 3))), groups=4), r"\[3, 3, 3\]"),
        (
            refused(op=TRANSPOSED, geometry=([3, 3], [1, 1], [0, 0], [1, 1], [1, 1])),
            "output_padding",
        ),
    ],
)
def test_refuses(case: LiveCase, message: str) -> None:
    with pytest.raises(WebpteError, match=message):
        lowered(case)
