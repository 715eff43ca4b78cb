"""Conversion of constants from their type in the file to the type that devices store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.files.source import ByteSource
from webpte.engine.gpu.device import Transfer
from webpte.errors import ConstantError

# Types in the file, and the types that the GPU stores for them.
CONVERSIONS = {
    "float16": "float32",
    "bfloat16": "float32",
    "float64": "float32",
    "int64": "int32",
}


def to_stored_bytes(data: bytes | memoryview, convert: str | None) -> bytes | memoryview:
    """Return a constant's bytes as the GPU stores them, padded to words."""
    if convert is not None:
        source = DTYPES[convert].from_bytes(data)
        with np.errstate(over="ignore"):
            target = source.astype(CONVERSIONS[convert])
        if convert == "int64" and not np.array_equal(source, target):
            raise ConstantError("an int64 constant does not fit into 32 bits")
        data = target.tobytes()
    padding = -len(data) % 4
    return bytes(data) + bytes(padding) if padding else data


def stored_offset(offset: int, convert: str | None) -> int:
    """Return the offset on the GPU of the element at this offset in the constant."""
    if convert is None:
        return offset
    return offset // DTYPES[convert].itemsize * np.dtype(CONVERSIONS[convert]).itemsize


def group_by_file(transfers: Sequence[Transfer]) -> list[tuple[ByteSource, list[Transfer]]]:
    """Group transfers by file, sorted by offset, so that each file is read from front to back."""
    files: dict[int, tuple[ByteSource, list[Transfer]]] = {}
    for transfer in transfers:
        source = transfer.region.source
        files.setdefault(id(source), (source, []))[1].append(transfer)
    for _, part in files.values():
        part.sort(key=lambda transfer: transfer.region.offset)
    return list(files.values())
