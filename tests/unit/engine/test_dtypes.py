"""Element types: the numbers of the files, NumPy's names, and the types stored on the GPU."""

from __future__ import annotations

import numpy as np
import pytest

from webpte.engine.dtypes import DTYPES, dtype_of_delegate, dtype_of_program, narrow_to_storage
from webpte.engine.format.shared import ScalarType
from webpte.engine.format.vulkan import DataType
from webpte.errors import UnsupportedError


@pytest.mark.parametrize("name", sorted({*DTYPES} - {"bfloat16"}))
def test_agrees_with_numpy(name: str) -> None:
    dtype = DTYPES[name]
    assert dtype.numpy == np.dtype(name)
    assert dtype.itemsize == np.dtype(name).itemsize
    assert dtype.is_float == (np.dtype(name).kind == "f")
    assert dtype.storage.stored == dtype.stored, "a stored type is stored as itself"


@pytest.mark.parametrize(
    ("name", "stored", "wgsl"),
    [
        ("bool", "bool", "bool"),
        ("uint8", "uint8", "u8"),
        ("int8", "int8", "i8"),
        ("int16", "int32", "i32"),
        ("int64", "int32", "i32"),
        ("float16", "float32", "f32"),
        ("bfloat16", "float32", "f32"),
        ("float64", "float32", "f32"),
    ],
)
def test_storage(name: str, stored: str, wgsl: str) -> None:
    assert DTYPES[name].storage.name == stored
    assert DTYPES[name].wgsl == wgsl


@pytest.mark.parametrize("code", [code for code in DataType if code is not DataType.UNSET])
def test_every_type_of_a_delegate_is_known(code: DataType) -> None:
    dtype = dtype_of_delegate(code, "here")
    assert dtype.name == code.name.lower()
    assert dtype.itemsize == code.itemsize


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ScalarType.BYTE, "uint8"),
        (ScalarType.CHAR, "int8"),
        (ScalarType.SHORT, "int16"),
        (ScalarType.INT, "int32"),
        (ScalarType.LONG, "int64"),
        (ScalarType.HALF, "float16"),
        (ScalarType.FLOAT, "float32"),
        (ScalarType.DOUBLE, "float64"),
        (ScalarType.BOOL, "bool"),
        (ScalarType.BFLOAT16, "bfloat16"),
    ],
)
def test_types_of_a_program(code: ScalarType, name: str) -> None:
    assert dtype_of_program(code, "here").name == name


def test_a_type_without_counterpart_says_where_and_which() -> None:
    with pytest.raises(UnsupportedError, match=r"input3: element type uint16 .* float32"):
        dtype_of_program(ScalarType.UINT16, "input3")
    with pytest.raises(UnsupportedError, match="element type complex64 is not supported"):
        dtype_of_program(ScalarType.COMPLEXFLOAT, "value 7")
    with pytest.raises(UnsupportedError, match="tensor value 9: element type 99"):
        dtype_of_delegate(99, "tensor value 9")


def test_narrowing_keeps_what_fits() -> None:
    wide = np.array([2**31 - 1, -(2**31), 0], np.int64)
    narrow = narrow_to_storage(wide, DTYPES["int64"], "x")
    assert narrow.dtype == np.int32
    np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**40, 2**63 - 1])
def test_narrowing_refuses_to_wrap(value: int) -> None:
    with pytest.raises(OverflowError, match="input 2: int64 values outside the range of int32"):
        narrow_to_storage(np.array([1, value], np.int64), DTYPES["int64"], "input 2")


def test_narrowing_floats_rounds() -> None:
    narrow = narrow_to_storage(np.array([0.1, 1e-300]), DTYPES["float64"], "x")
    assert narrow.dtype == np.float32
    assert narrow.tolist() == [np.float32(0.1), 0]


def test_what_is_stored_as_it_is_is_not_copied() -> None:
    array = np.ones(3, np.float32)
    assert narrow_to_storage(array, DTYPES["float32"], "x") is array


@pytest.mark.parametrize(
    ("target", "source", "holds"),
    [
        ("float32", "float16", True),
        ("float16", "float16", True),
        ("float16", "float32", False),  # stored as float32, but rounded
        ("float16", "float64", False),
        ("float32", "bfloat16", True),
        ("bfloat16", "bfloat16", True),
        ("bfloat16", "float32", False),  # stored as float32, but rounded
        ("bfloat16", "float16", False),
        ("float16", "bfloat16", False),
        ("float32", "float64", True),
        ("int32", "int64", True),
        ("float32", "int32", False),
    ],
)
def test_what_stored_values_are_good_for(target: str, source: str, holds: bool) -> None:
    assert DTYPES[target].holds_stored(DTYPES[source]) == holds
