"""Constants of XNNPACK in the layouts that webpte's kernels read, converted while uploaded.

A converted constant is a source of bytes over the constant in the file: whoever uploads it reads
it in steps, so that no weight is in the Python heap as a whole. Equal conversions of equal
constants are equal sources, and share a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.files.source import ConvertedSource, Region
from webpte.engine.graph.graph import Constant
from webpte.engine.shapes import Dims

Array = np.ndarray


@dataclass(frozen=True)
class AxisOrder:
    """Rows of `dims` with the axes reordered, and the elements cast."""

    dims: Dims
    axes: tuple[int, ...]
    source: str
    target: str

    def __call__(self, data: bytes | memoryview) -> bytes:
        array = DTYPES[self.source].from_bytes(data).reshape(-1, *self.dims)
        moved = array.transpose(0, *(axis + 1 for axis in self.axes))
        return DTYPES[self.target].to_bytes(moved)


@dataclass(frozen=True)
class Widened:
    """Rows of bytes with zeros appended."""

    file_bytes: int
    row_bytes: int

    def __call__(self, data: bytes | memoryview) -> bytes:
        rows = np.frombuffer(data, np.uint8).reshape(-1, self.file_bytes)
        return np.pad(rows, ((0, 0), (0, self.row_bytes - self.file_bytes))).tobytes()


def relaid(
    constant: Constant, dims: Dims, axes: Sequence[int], source: str, target: str, rows: int = 1
) -> Constant:
    """Reorder the axes of each of `rows` arrays of `dims`, and cast the elements."""
    count = prod(dims)
    moved = [axis for axis in axes if dims[axis] != 1]
    if source == target and moved == sorted(moved):
        return constant
    if not rows * count:
        return constant
    file_bytes, row_bytes = (count * DTYPES[dtype].itemsize for dtype in (source, target))
    read = constant.region.head(rows * file_bytes)
    convert = AxisOrder(tuple(dims), tuple(axes), source, target)
    found = ConvertedSource(read, file_bytes, row_bytes, convert)
    return Constant(Region(found, 0, found.size), None)


def widened(constant: Constant, rows: int, file_bytes: int, row_bytes: int) -> Constant:
    """Append zero bytes to each row of a matrix of bytes."""
    if file_bytes == row_bytes:
        return constant
    read = constant.region.head(rows * file_bytes)
    found = ConvertedSource(read, file_bytes, row_bytes, Widened(file_bytes, row_bytes))
    return Constant(Region(found, 0, found.size), None)
