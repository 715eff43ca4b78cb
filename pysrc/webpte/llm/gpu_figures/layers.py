"""Layers of known models, whose weights are made up: nothing has to be downloaded.

A program file ends with the bytes of its weights. The files here are heads without that end; a
`MadeUpProgram` fills it with one block of small random numbers, again and again. The numbers are
ordinary as floats, as halves and as codes of 4 and 8 bits, and say nothing.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from webpte.engine.files.source import check_range

_FOLDER = Path(__file__).parent
_HEADER = struct.Struct("<QQ")  # where the weights begin, and their bytes
_HEADER_AT = 24
_BLOCK_WORDS = 262_139  # a prime: rows of a weight begin at different numbers
_SMALL = 0.02


class MadeUpProgram:
    """A program file of this package with made-up weights; a source for `webpte.load`."""

    def __init__(self, name: str) -> None:
        self.name = f"{name}.pte"
        self._head = (_FOLDER / self.name).read_bytes()
        begin, length = _HEADER.unpack_from(self._head, _HEADER_AT)
        self.size = begin + length
        random = np.random.default_rng(1)
        block = random.normal(0, _SMALL, _BLOCK_WORDS).astype(np.float32).tobytes()
        self._block = block

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the head, and of the block that follows it again and again."""
        check_range(self, offset, length)
        head = self._head[offset : offset + length]
        first = offset + len(head) - len(self._head)
        left = length - len(head)
        if not left:
            return head
        start = first % len(self._block)
        times = -(-(start + left) // len(self._block))
        return head + (self._block * times)[start : start + left]
