"""PyTorch's type promotion; its own answers are in the cases of test_expected.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from webpte.engine.portable.promotion import result_type


def dims(dtype: str) -> np.ndarray:
    return np.zeros(2, dtype)


def rank0(dtype: str) -> np.ndarray:
    return np.zeros((), dtype)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((dims("float32"), dims("float32")), "float32"),
        ((dims("int64"), dims("float32")), "float32"),
        ((dims("int64"), dims("float16")), "float16"),
        ((dims("float16"), dims("float64")), "float64"),
        ((dims("uint8"), dims("int8")), "int16"),
        ((dims("bool"), dims("uint8")), "uint8"),
        ((dims("int32"), rank0("int64")), "int32"),
        ((dims("float16"), rank0("float64")), "float16"),
        ((dims("int32"), rank0("float64")), "float64"),
        ((dims("bool"), rank0("int16")), "int16"),
        ((rank0("int32"), rank0("int64")), "int64"),
        ((dims("int32"), 2.5), "float32"),
        ((dims("int32"), 2), "int32"),
        ((dims("bool"), 2), "int64"),
        ((dims("bool"), True), "bool"),
        ((dims("float16"), 2.5), "float16"),
        ((rank0("float64"), 2.5), "float64"),
        ((rank0("int32"), 2.5), "float32"),
        ((dims("int8"), rank0("int32"), 2.5), "float32"),
        ((dims("int8"), None, 3), "int8"),
        ((2, 2.5), "float32"),
        ((), "float32"),
    ],
)
def test_the_type_that_operands_meet_in(operands: tuple[Any, ...], expected: str) -> None:
    assert result_type(*operands) == expected
