"""What an index needs of an encoder of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from webpte.runtime.program import Program

Array = np.ndarray


class Embedder(Protocol):
    """An encoder of texts: `webpte.tasks.open("retrieval", ...)` is one.

    width        of its vectors
    most_tokens  of a text that it reads, without special ones
    key          says how vectors are made of the program's outputs
    """

    @property
    def program(self) -> Program: ...

    @property
    def width(self) -> int: ...

    @property
    def most_tokens(self) -> int: ...

    @property
    def key(self) -> str: ...

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, without special ones."""
        ...

    async def embed(self, texts: Sequence[str]) -> Array:
        """Return vectors (texts, width), each of length 1. Texts that are too long are cut."""
        ...
