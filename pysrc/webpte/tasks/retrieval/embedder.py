"""The interface of encoders of texts, as an index uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.llm.text import encodes_sentences
from webpte.program import Program

Array = np.ndarray

_METHOD = "forward"
_LEAST_WIDTH, _MOST_WIDTH = 64, 8192  # widths of token vectors


def encodes_texts(methods: Mapping[str, MethodInfo]) -> bool:
    """Return whether retrieval can use a program.

    Such a program returns a vector for each sentence, or for each token of texts with their mask.
    """
    if encodes_sentences(methods):
        return True
    info = methods.get(_METHOD)
    if info is None or not 1 <= len(info.inputs) <= 3 or len(info.outputs) != 1:
        return False
    texts = {
        one.shape if isinstance(one, TensorInfo) and one.dtype in ("int32", "int64") else ()
        for one in info.inputs
    }
    vectors = info.outputs[0]
    return (
        isinstance(vectors, TensorInfo)
        and vectors.dtype.startswith("float")
        and len(vectors.shape) == 3
        and texts == {vectors.shape[:2]}
        and _LEAST_WIDTH <= vectors.shape[2] <= _MOST_WIDTH
    )


class Embedder(Protocol):
    """An encoder of texts, for example `webpte.tasks.open("retrieval", ...)`.

    width        width of its vectors
    most_tokens  limit of a text's tokens, without special tokens
    key          names the way from the program's outputs to vectors
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
        """Return the number of tokens of a text, without special tokens."""
        ...

    async def embed(self, texts: Sequence[str]) -> Array:
        """Return vectors (texts, width), each of length 1. Texts that are too long are cut."""
        ...
