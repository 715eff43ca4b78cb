"""Numbers at which rounding to bfloat16 can go wrong, and a program that casts."""

from __future__ import annotations

import numpy as np

from support.graphs.stitching import neg
from support.write.pte_writer import MethodWriter
from webpte.engine.dtypes import DTYPES

# Bits of a float32, and of the nearest bfloat16 as a float32; of two equally near, the even one.
ROUNDED = {
    0x00000000: 0x00000000,
    0x80000000: 0x80000000,
    0x3F800000: 0x3F800000,
    0x3F807FFF: 0x3F800000,
    0x3F808000: 0x3F800000,  # halfway, and 1.0 is even
    0x3F808001: 0x3F810000,
    0x3F818000: 0x3F820000,  # halfway
    0xBF818000: 0xBF820000,
    0x3FFFFFFF: 0x40000000,
    0xC2F7FFFF: 0xC2F80000,
    0x7F7F7FFF: 0x7F7F0000,
    0x7F7F8000: 0x7F800000,  # halfway from the largest to the next: infinity
    0x7F7FFFFF: 0x7F800000,
    0xFF7FFFFF: 0xFF800000,
    0x7F800000: 0x7F800000,
    0xFF800000: 0xFF800000,
    0x7FC00000: 0x7FC00000,  # NaN, quiet and signalling
    0x7FC00001: 0x7FC00000,
    0x7F800001: 0x7FC00000,
    0xFF812345: 0xFFC10000,
    0xFFFFFFFF: 0xFFFF0000,
    0x00000001: 0x00000000,  # subnormal
    0x00008000: 0x00000000,
    0x00008001: 0x00010000,
    0x00018000: 0x00020000,
    0x807FFFFF: 0x80800000,
    0x007F8000: 0x00800000,
    0x807F7FFF: 0x807F0000,
}
EDGES = np.array(list(ROUNDED), np.uint32).view(np.float32)
BITS = list(ROUNDED.values())


def rounded_bits(word: int) -> int:
    """Round the bits of a float32 by comparing the part that is cut off with its half."""
    if word & 0x7FFFFFFF > 0x7F800000:
        return (word | 0x400000) & 0xFFFF0000
    upper, rest = word >> 16, word & 0xFFFF
    return (upper + (rest > 0x8000 or (rest == 0x8000 and upper & 1))) << 16


def casting(source: str, target: str, kernel: str, size: int = len(EDGES)) -> MethodWriter:
    """Write a cast of one input, and a delegate for another."""
    m = MethodWriter()
    x, y, out = m.tensor((size,), source), m.tensor((4,)), m.tensor((size,), target)
    m.inputs(x, y)
    m.kernel(kernel, x, False, None, out, out)
    m.outputs(out, neg(m, y))
    return m


def adding(constant: np.ndarray | None = None, size: int = 3) -> MethodWriter:
    """Write a sum of the input with a constant, by default with itself."""
    m = MethodWriter()
    size = size if constant is None else len(constant)
    x, out = m.tensor((size,), "bfloat16"), m.tensor((size,), "bfloat16")
    data = None if constant is None else DTYPES["bfloat16"].to_bytes(constant)
    m.inputs(x)
    m.kernel(
        "aten::add.out",
        x,
        x if data is None else m.tensor((size,), "bfloat16", data=data),
        1,
        out,
        out,
    )
    m.outputs(out)
    return m
