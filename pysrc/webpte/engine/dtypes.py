"""Element types: their numbers in files, their NumPy names, their storage on the GPU.

A tensor has a *declared* dtype (in the file) and a *stored* one (in its GPU buffer). They differ
where WebGPU has no such type: 64-bit values are stored in 32 bits. f16 is stored as f16 where the
GPU has it (`NATIVE_HALF`), and as float32 elsewhere. `bool`, `int8` and `uint8` are stored as
bytes, four to a u32 word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from webpte.errors import UnsupportedError

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class DType:
    """One element type. `stored` names the type of the GPU buffer, itself a key of DTYPES.

    With a `packing`, elements are words in which a KV cache holds rows of floats: see
    ops/attention/cache_packing.py.
    """

    name: str  # NumPy's name
    itemsize: int  # bytes per element in files and in NumPy
    stored: str
    packing: str | None = None

    @cached_property  # every call uses it several times
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.name)

    @property
    def computed(self) -> np.dtype[Any]:
        """The type that references compute in: f16 would round every intermediate result."""
        return np.dtype(np.float32) if self.name == "float16" else self.numpy

    @property
    def storage(self) -> DType:
        return DTYPES[self.stored]

    @property
    def is_float(self) -> bool:
        return self.name.startswith("float")

    def holds_stored(self, source: DType) -> bool:
        """Tell whether a `source` tensor's stored elements are valid as this type's, unchanged."""
        halves = self.name == "float16" and source.name != "float16"
        return self.stored == source.stored and not halves

    @property
    def wgsl(self) -> str:
        """The stored type's short name in the shaders: f32, f16, i32, bool, i8 or u8."""
        return _WGSL_NAMES[self.stored]


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("bool", 1, "bool"),
        DType("uint8", 1, "uint8"),
        DType("int8", 1, "int8"),
        DType("int16", 2, "int32"),
        DType("int32", 4, "int32"),
        DType("int64", 8, "int32"),
        DType("float16", 2, "float32"),
        DType("float32", 4, "float32"),
        DType("float64", 8, "float32"),
    )
}

NATIVE_HALF = DType("float16", 2, "float16")

_WGSL_NAMES = {
    "bool": "bool",
    "uint8": "u8",
    "int8": "i8",
    "int32": "i32",
    "float16": "f16",
    "float32": "f32",
}

# VkDataType: how a delegate's graph numbers element types.
_DELEGATE_CODES = {
    0: "bool",
    1: "uint8",
    2: "int8",
    3: "int32",
    4: "float16",
    5: "float32",
    6: "float64",
    7: "int64",
}

# ScalarType: how the program around the delegates numbers them.
_PROGRAM_CODES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    11: "bool",
}

# PyTorch's names of dtypes that this runtime does not have.
_OTHER_CODES = {
    8: "complex32",
    9: "complex64",
    10: "complex128",
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    16: "quint4x2",
    17: "quint2x4",
    18: "bits1x8",
    19: "bits2x4",
    20: "bits4x2",
    21: "bits8",
    22: "bits16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
}


def dtype_of_delegate(code: int, where: str) -> DType:
    """Return the dtype with this code in a delegate's graph."""
    return _lookup(_DELEGATE_CODES, code, str(code), where)


def dtype_of_program(code: int, where: str) -> DType:
    """Return the dtype with this code in a program's tensors."""
    return _lookup(_PROGRAM_CODES, code, _OTHER_CODES.get(code, str(code)), where)


def _lookup(codes: dict[int, str], code: int, name: str, where: str) -> DType:
    try:
        return DTYPES[codes[code]]
    except KeyError:
        known = ", ".join(codes.values())
        raise UnsupportedError(
            f"{where}: element type {name} is not supported; supported are {known}"
        ) from None


def convert_exactly(array: np.ndarray, target: np.dtype[Any], what: str) -> np.ndarray:
    """Convert a host array for a graph.

    Floats may lose precision, or become infinite. An integer that does not fit raises
    OverflowError, and so does a change of kind that would lose fractions or truth values.
    """
    if array.dtype == target:
        return array
    if not _is_of_kind(array.dtype, target):
        raise OverflowError(f"{what}: an array of {array.dtype} cannot become {target}")
    if target.kind in "iu":
        converted = array.astype(target)
        if (converted != array).any():
            raise OverflowError(f"{what}: {array.dtype} values outside the range of {target}")
        return converted
    with np.errstate(over="ignore"):
        return array.astype(target)


@cache  # used by every call, and as slow as the conversion of a small array
def _is_of_kind(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    return np.can_cast(source, target, "same_kind")


def narrow_to_storage(array: np.ndarray, dtype: DType, what: str) -> np.ndarray:
    """Convert an array to the GPU's storage type of `dtype`."""
    return convert_exactly(array, dtype.storage.numpy, what)


def as_declared(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Cast to `dtype` without NumPy warnings; no copy if it already has that dtype."""
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtype)
