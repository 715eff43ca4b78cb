"""Padding: references, the width of its moves, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, dispatch_of, lowered, random_bits
from support.cases.move.pad_cases import padded
from webpte.errors import GraphError

PAD = "aten.constant_pad_nd.default"


@pytest.mark.parametrize(
    ("shape", "pad", "dtype", "unit"),
    [
        ((3, 8), [4, 4], "float32", "vec4<u32>"),
        ((3, 8), [1, 3], "float32", "u32"),
        ((3, 5, 8), [0, 0, 1, 2], "float32", "vec4<u32>"),  # whole rows
        ((3, 16), [16, 32], "int8", "vec4<u32>"),
        ((3, 8), [4, 4], "int8", "u32"),
    ],
)
def test_moves_as_wide_as_borders_allow(
    shape: tuple[int, ...], pad: list[int], dtype: str, unit: str
) -> None:
    dispatch = dispatch_of(LiveCase(PAD, [(random_bits(shape, dtype), pad, 0)], padded))
    assert dict(dispatch.types) == {"UNIT": unit}
    assert dict(dispatch.overrides) == {"PARTS": 1}


@pytest.mark.parametrize(
    ("shape", "args", "dtype", "message"),
    [
        ((3, 8), ([1], 0), "float32", "not a list of pairs"),
        ((8,), ([1, 1, 1, 1], 0), "float32", "list of pairs for rank 1"),
        ((3, 8), ([-5, -4], 0), "float32", "crops more"),
        ((3, 8), ([1, 1], 300), "uint8", "300 does not fit into uint8"),
        ((3, 8), ([1, 1], 1e10), "int32", "does not fit into int32"),
        ((3, 8), ([1, 1], float("nan")), "int32", "does not fit into int32"),
    ],
)
def test_refuses(shape: tuple[int, ...], args: tuple[Any, ...], dtype: str, message: str) -> None:
    nothing = np.zeros((3, 10), np.uint8 if dtype == "uint8" else np.uint32)
    case = LiveCase(PAD, [(random_bits(shape, dtype), *args)], lambda *_: nothing)
    with pytest.raises(GraphError, match=message):
        lowered(case)
