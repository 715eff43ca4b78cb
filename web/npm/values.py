"""Values that cross from JavaScript and back: JSON, with numbers and bytes that JSON has not.

    {"webpte:part": 0}                          part 0 of the message, such as a Blob
    {"webpte:tensor": [0, "float32", [2, 3]]}   an array, its bytes part 0; the shape may be null
    {"webpte:gpu": [7, "float32", [2, 3], 0]}   a tensor on the GPU, by its handle; its GPUBuffer is
                                                part 0, or null if that cannot cross
    {"webpte:held": [7, {"width": 2}]}          a result that stays in Python, by its handle, and
                                                its description
    {"webpte:int": "9007199254740993"}          an integer that a double cannot hold
    {"webpte:float": "NaN"}

`values.js` is the other half.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from webpte import GpuTensor
from webpte.errors import InputError
from webpte.tasks.task import HeldResult

_EXACT = 1 << 53  # integers below are exact as doubles
DTYPES = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)
DESTROYED = "this GpuTensor was destroyed"
_FREED = {"webpte:gpu": DESTROYED, "webpte:held": "this result was closed"}
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class FlatArray:
    """An array whose shape the sender did not give."""

    elements: np.ndarray


@dataclass(frozen=True)
class ForeignObject:
    """An object of JavaScript, which crosses unchanged."""

    object: Any


def decode(text: str, parts: Sequence[Any], find: Callable[[int, str], Any]) -> Any:
    """Return the value of a message.

    `find` returns an object by its handle; it is also given the message for a freed object.
    """

    def convert(table: dict[str, Any]) -> Any:
        if len(table) != 1:
            return table
        (kind, content), *_ = table.items()
        if kind == "webpte:part":
            return parts[content]
        if kind == "webpte:tensor":
            return _array(parts[content[0]], content[1], content[2])
        if kind in _FREED:
            return find(content[0], _FREED[kind])
        if kind == "webpte:int":
            return int(content)
        if kind == "webpte:float":
            return _FLOATS[content]
        return table

    return json.loads(text, object_hook=convert)


def _array(data: Any, dtype: str, shape: list[int] | None) -> Any:
    if dtype not in DTYPES:
        raise InputError(f"no tensor has the dtype {dtype!r}; there are {', '.join(DTYPES)}")
    kind = np.dtype(np.uint8 if dtype == "bool" else dtype)
    if len(data) % kind.itemsize:
        raise InputError(f"{len(data)} bytes are not a whole number of {dtype} elements")
    elements = np.frombuffer(data, kind)
    elements = elements != 0 if dtype == "bool" else elements
    if shape is None:
        return FlatArray(elements)
    if math.prod(shape) != elements.size or min(shape, default=0) < 0:
        raise InputError(f"{elements.size} elements have not the shape {shape}")
    return elements.reshape(shape)


class Encoder:
    """Encodes a value: `text` is its JSON, `parts` the bytes of its arrays and foreign objects."""

    def __init__(self, keep: Callable[[GpuTensor | HeldResult], int], shares_thread: bool) -> None:
        """`keep` stores a tensor on the GPU, or a result, and returns its handle."""
        self._keep = keep
        self._shares_thread = shares_thread
        self.parts: list[Any] = []

    def text(self, value: Any) -> str:
        return json.dumps(self._plain(value), allow_nan=False)

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, str | bool):
            return value
        if isinstance(value, np.generic):
            return self._plain(value.item())
        if isinstance(value, int):
            return value if abs(value) < _EXACT else {"webpte:int": str(value)}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"webpte:float": _float_name(value)}
        if isinstance(value, np.ndarray):
            return self._tensor(value)
        if isinstance(value, bytes):
            return self._tensor(np.frombuffer(value, np.uint8))
        if isinstance(value, GpuTensor):
            buffer = self._part(value.buffer) if self._shares_thread else None
            return {"webpte:gpu": [self._keep(value), value.dtype.name, list(value.shape), buffer]}
        if isinstance(value, HeldResult):
            attributes = {name: self._plain(getattr(value, name)) for name in value.fields}
            return {"webpte:held": [self._keep(value), attributes]}
        if isinstance(value, ForeignObject):
            return {"webpte:part": self._part(value.object)}
        if isinstance(value, Mapping):
            return {str(key): self._plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        if is_dataclass(value):
            return {one.name: self._plain(getattr(value, one.name)) for one in fields(value)}
        return str(value)

    def _tensor(self, array: np.ndarray) -> dict[str, Any]:
        contiguous = np.ascontiguousarray(array)
        at = self._part(contiguous.reshape(-1).view(np.uint8))
        return {"webpte:tensor": [at, array.dtype.name, list(array.shape)]}

    def _part(self, part: Any) -> int:
        self.parts.append(part)
        return len(self.parts) - 1


def _float_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unshaped(value: Any) -> Any:
    """Return a value in which arrays without a shape have one dim."""
    if isinstance(value, FlatArray):
        return value.elements
    if isinstance(value, dict):
        return {key: unshaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unshaped(item) for item in value]
    return value
