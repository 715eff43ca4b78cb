"""Tables of XNNPACK's unary nodes, against ExecuTorch's runtime and rows written by hand."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from webpte.engine.xnnpack.tables import quantized_bound, requantize_table, unary_table
from webpte.errors import UnsupportedError

RECORDS = json.loads(
    (Path(__file__).parents[3] / "data/xnnpack/tables.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("record", RECORDS, ids=[f"{i} {r[0]}" for i, r in enumerate(RECORDS)])
def test_tables_are_those_of_the_runtime(record: list[Any]) -> None:
    """Compare with what executorch 1.5.1 computed on x86 for every byte."""
    name, x_scale, x_zero, out_scale, out_zero, options, encoded = record
    wanted = np.frombuffer(base64.b64decode(encoded), np.int8)
    numbers = (x_scale, x_zero, True, out_scale, out_zero)
    given: dict[str, Any] = {key: float(value) for key, value in options.items()}
    if name == "convert":
        table = requantize_table(*numbers)
    else:
        table = unary_table(name, *numbers, **given)
    assert table.dtype == np.int8
    np.testing.assert_array_equal(table, wanted)


def test_tables_of_unsigned_bytes() -> None:
    identity = requantize_table(0.1, 7, False, 0.1, 7)
    assert identity.dtype == np.uint8
    np.testing.assert_array_equal(identity, np.arange(256))
    # Byte 255 is -1 if signed; 128 is added to keep the number.
    moved = requantize_table(0.5, 0, True, 0.5, 128, out_signed=False)
    assert moved.dtype == np.uint8
    assert (moved[255], moved[127]) == (127, 255)
    clamped = unary_table("clamp", 0.5, 10, False, 0.5, 10, low=0, high=6)
    assert (clamped.min(), clamped.max()) == (10, 22)


def test_halves() -> None:
    """Conversions round halves up, functions to even after the zero is added."""
    assert requantize_table(1, 0, True, 2, 0)[[1, 3, 255, 253]].tolist() == [1, 2, 0, -1]
    assert unary_table("copy", 1, 0, True, 2, 0)[[1, 3, 255, 253]].tolist() == [0, 2, 0, -2]
    assert unary_table("copy", 1, 0, True, 2, 1)[[1, 3]].tolist() == [2, 2]


def test_what_is_no_number_is_byte_zero() -> None:
    """The zero point is not added."""
    assert unary_table("log", 1, 0, True, 1, 5)[[0, 200]].tolist() == [-128, 0]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (-math.inf, -128),
        (math.inf, 127),
        (0, 3),
        (1.25, 6),
        (0.75, 4),
        (1e38, 127),
        (-0.74, 2),
        (-0.75, 2),
    ],
)
def test_bounds(value: float, wanted: int) -> None:
    assert quantized_bound(value, 0.5, 3, True) == wanted


def test_what_has_no_table() -> None:
    with pytest.raises(UnsupportedError, match="gamma has no table"):
        unary_table("gamma", 1, 0, True, 1, 0)
    with pytest.raises(UnsupportedError, match="a ratio of 200"):
        requantize_table(200, 0, True, 1, 0)
    with pytest.raises(UnsupportedError, match=r"a ratio of 0\.001"):
        unary_table("leaky_relu", 1, 0, True, 1, 0, alpha=0.001)
    with pytest.raises(UnsupportedError, match="is nan"):
        quantized_bound(math.nan, 1, 0, True)
