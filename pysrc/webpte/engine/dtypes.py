"""Element types: their numbers in files, their NumPy names, their storage on the GPU.

A tensor has a *declared* dtype (in the file) and a *stored* one (in its GPU buffer). They differ
where WebGPU has no such type: 64-bit values are stored in 32 bits. f16 is stored as f16 where the
GPU has it (`NATIVE_HALF`), and as float32 elsewhere. `bool`, `int8` and `uint8` are stored as
bytes, four to a u32 word.

bfloat16 is the upper half of a float32, rounded. Neither NumPy nor WebGPU has it: arrays and GPU
buffers hold its values as float32, files as 2 bytes. So the dtype of an array does not say whether
its values are rounded to bfloat16; the declared dtype does, and `DType.cast` rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from webpte.errors import UnsupportedError

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class DType:
    """One element type. `stored` names the type of the GPU buffer, itself a key of DTYPES.

    With a `packing`, elements are words in which a KV cache holds rows of floats: see
    ops/attention/cache_packing.py.
    """

    name: str  # NumPy's name, or bfloat16
    itemsize: int  # bytes per element in files
    stored: str
    packing: str | None = None

    @cached_property  # every call uses it several times
    def numpy(self) -> np.dtype[Any]:
        return array_dtype(self.name)

    @property
    def computed(self) -> np.dtype[Any]:
        """The type that references compute in: f16 would round every intermediate result."""
        return np.dtype(np.float32) if self.name == "float16" else self.numpy

    @property
    def storage(self) -> DType:
        return DTYPES[self.stored]

    @property
    def is_float(self) -> bool:
        return "float" in self.name

    def holds_stored(self, source: DType) -> bool:
        """Tell whether a `source` tensor's stored elements are valid as this type's, unchanged."""
        rounds = self.name in ("float16", BFLOAT16) and source.name != self.name
        return self.stored == source.stored and not rounds

    def cast(self, array: np.ndarray) -> np.ndarray:
        """Convert an array to this type, rounded to nearest even; no copy if nothing changes."""
        converted = array
        if array.dtype != self.numpy:
            with np.errstate(all="ignore"):
                converted = array.astype(self.numpy)
        return round_to_bfloat16(converted) if self.name == BFLOAT16 else converted

    def from_bytes(self, data: bytes | bytearray | memoryview) -> np.ndarray:
        """Return the elements that a file has in these bytes; writable if the bytes are."""
        if self.name != BFLOAT16:
            return np.frombuffer(data, self.numpy)
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)

    def to_bytes(self, array: np.ndarray) -> bytes:
        """Return the bytes of a file for an array of any type, which is cast to this type."""
        cast = self.cast(array)
        if self.name != BFLOAT16:
            return cast.tobytes()
        return (np.ascontiguousarray(cast).view(np.uint32) >> 16).astype(np.uint16).tobytes()

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
        DType(BFLOAT16, 2, "float32"),
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
    15: BFLOAT16,
}

# PyTorch's names of dtypes that this runtime does not have.
_OTHER_CODES = {
    8: "complex32",
    9: "complex64",
    10: "complex128",
    12: "qint8",
    13: "quint8",
    14: "qint32",
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


def array_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of arrays of a declared dtype."""
    return np.dtype(np.float32 if name == BFLOAT16 else name)


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


def round_to_bfloat16(array: np.ndarray) -> np.ndarray:
    """Round float32 values to nearest even, as float32; no copy if they are rounded already.

    A NaN stays a NaN: it keeps its sign and its upper bits, and becomes quiet.
    """
    bits = np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    if not (bits & np.uint32(0xFFFF)).any():
        return array
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    quiet = (bits | np.uint32(0x400000)) & np.uint32(0xFFFF0000)
    nans = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nans, quiet, rounded).view(np.float32)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is `ml_dtypes.bfloat16`, which NumPy knows once that is imported."""
    return dtype.name == BFLOAT16 and dtype.itemsize == 2
