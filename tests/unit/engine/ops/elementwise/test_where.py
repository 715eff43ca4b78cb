"""aten.where: references and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.elementwise.where_cases import WHERE, chosen, where
from support.cases.live_cases import LiveCase, dispatch_of, lowered, random_bits
from webpte.errors import GraphError


def test_floats_move_as_bits() -> None:
    args = where("float32", "bool", ((3,), (3,), (3,)))
    types = dict(dispatch_of(LiveCase(WHERE, [args], chosen, out="float32")).types)
    assert types == {"COMPUTE": "i32", "CONDITION": "bool", "OUT": "i32", "X": "i32", "Y": "i32"}


@pytest.mark.parametrize(
    ("condition", "shape", "message"),
    [("float32", (3, 5), "the condition is float32"), ("bool", (3, 4), "do not broadcast")],
)
def test_refuses(condition: str, shape: tuple[int, ...], message: str) -> None:
    x = random_bits((3, 5))
    args = (random_bits((3, 5), condition), x, random_bits(shape))
    case = LiveCase(WHERE, [args], lambda *_: np.zeros((3, 5), np.uint32))
    with pytest.raises(GraphError, match=message):
        lowered(case)
