"""KV caches in f16 or 8 bits: rows of floats, packed into words of 32 bits.

A row is the key or value of one head at one position. A write packs the row, and the kernels that
read it unpack it; a packed cache [B, C, heads, words] is a tensor of words.

f16    elements in f16, rounded to nearest, four to a unit of two words
int8   a word with a scale (float32), then four codes from -127 to 127 to a word; an element is
       its code times the scale, which is the row's largest magnitude / 127

Rows end with a whole unit, filled with zeros. A step has 17 significant bits, so that a number
times the step is exact in float32: every device reads the same floats from the same words. A row
with an infinity or NaN becomes NaN in 8 bits. The counterparts of wgsl/lib/attention/cache/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.dtypes import DType
from webpte.engine.shapes import Dims

Array = np.ndarray[Any, np.dtype[Any]]

QUAD = 4
LARGEST = 127  # significant bits of a step
EXPONENT_BITS, INFINITE = 23, 255
LEAST_EXPONENT = 40  # biased float32 exponent: smaller rows are zeros in 8 bits
NO_STEP = np.uint32(0x7FC00000)


@dataclass(frozen=True)
class CachePacking:
    """A way to pack rows: its dtype, the name of its WGSL files, and words per unit."""

    dtype: DType
    wgsl: str
    unit_words: int
    has_step: bool

    def units(self, size: int) -> int:
        """Return the units per row of `size` elements, as kernels count them."""
        return -(-size // QUAD) + self.has_step

    def words(self, size: int) -> int:
        """Return the words per row of `size` elements."""
        return self.units(size) * self.unit_words

    def packed_dims(self, dims: Dims) -> Dims:
        """Return the dims of the packed form of a cache with these float dims."""
        return (*dims[:-1], self.words(dims[-1]))

    def largest_step(self, values: Array) -> float:
        """Return the largest distance between neighbouring numbers of a cache with these values."""
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0))
        return largest / (LARGEST if self.has_step else 1 << 10)


def _words(packing: str) -> DType:
    return DType("int32", 4, "int32", packing)


PACKINGS = {
    "f16": CachePacking(_words("f16"), "halves", 2, has_step=False),
    "int8": CachePacking(_words("int8"), "bytes", 1, has_step=True),
}


def packing_of(dtype: DType) -> CachePacking | None:
    """Return the packing of a cache's dtype; None for a float dtype."""
    return None if dtype.packing is None else PACKINGS[dtype.packing]


def pack_rows(values: Array, packing: CachePacking) -> Array:
    """Pack rows of floats (.., size) into words (.., words)."""
    rows = np.ascontiguousarray(values, np.float32)
    padding = -rows.shape[-1] % QUAD
    if padding:
        rows = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, padding)])
    with np.errstate(all="ignore"):
        if not packing.has_step:
            return rows.astype(np.float16).view(np.int32)
        steps = _steps(rows)
        usable = np.isfinite(steps) & (steps > 0)
        ratio = rows.astype(np.float64) / np.where(usable, steps, 1)
        numbers = np.clip(np.rint(ratio), -LARGEST, LARGEST)
        bytes_ = np.where(usable, numbers, 0).astype(np.int8)
    return np.concatenate([steps.view(np.int32), bytes_.view(np.int32)], axis=-1)


def _steps(rows: Array) -> Array:
    """Return the step of each row (.., 1): its peak / 127 in 17 bits, from integers."""
    sizes = rows.view(np.uint32) & np.uint32(0x7FFFFFFF)
    peak = sizes.max(axis=-1, keepdims=True, initial=0).astype(np.int64)
    exponent = peak >> EXPONENT_BITS
    part = (((peak & 0x7FFFFF) | 0x800000) * 128 + 63) // LARGEST  # 24 or 25 bits
    dropped = np.where(part >= 1 << 24, 8, 7)
    kept = (part + (1 << (dropped - 1))) >> dropped
    steps = np.ldexp(kept.astype(np.float64), exponent + dropped - 157).astype(np.float32)
    steps[exponent < LEAST_EXPONENT] = 0
    steps.view(np.uint32)[exponent == INFINITE] = NO_STEP
    return np.ascontiguousarray(steps)


def unpack_rows(words: Array, size: int, packing: CachePacking) -> Array:
    """Unpack words (.., words) into rows of floats (.., size)."""
    words = np.ascontiguousarray(words, np.int32)
    with np.errstate(all="ignore"):
        if not packing.has_step:
            return words.view(np.float16)[..., :size].astype(np.float32)
        steps = words[..., :1].view(np.float32)
        numbers = np.ascontiguousarray(words[..., 1:]).view(np.int8)
        return numbers[..., :size].astype(np.float32) * steps


def unpack_whole_rows(words: Array, packing: CachePacking) -> Array:
    """Unpack words (.., words) into rows of floats, with the zeros after their ends."""
    units = words.shape[-1] // packing.unit_words - packing.has_step
    return unpack_rows(words, QUAD * units, packing)
