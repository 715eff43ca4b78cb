"""Sentences as vectors, which are near each other for similar meanings, by encoders like MiniLM.

    encoder = webpte.text.SentenceEncoder(program, tokenizer)
    for found in await encoder.rank("How do I get my money back?", sentences):
        print(found.score, found.text)

The program has a single input, tokens (sentences, length) with 0 after shorter sentences, and a
single output, a vector for each sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.open.threads import in_thread
from webpte.errors import InputError
from webpte.llm.text.batches import Progress, RowBatches
from webpte.llm.text.tokenizer import Tokenizer
from webpte.program import Program

Array = np.ndarray

_METHOD = "forward"
_PAD = 0
_LEAST_WIDTH = 8  # least width of a sentence encoder's vectors


@dataclass(frozen=True)
class Ranked:
    """A text, its index in the list, and its similarity to the query, -1 to 1."""

    score: float
    text: str
    at: int


def encodes_sentences(methods: Mapping[str, MethodInfo]) -> bool:
    """Return whether a program looks like a sentence encoder."""
    info = methods.get(_METHOD)
    if info is None or len(info.inputs) != 1 or len(info.outputs) != 1:
        return False
    tokens, vectors = info.inputs[0], info.outputs[0]
    if not isinstance(tokens, TensorInfo) or not isinstance(vectors, TensorInfo):
        return False
    return (
        (len(tokens.shape), len(vectors.shape)) == (2, 2)
        and tokens.dtype in ("int32", "int64")
        and vectors.dtype.startswith("float")
        and vectors.shape[0] == tokens.shape[0] > 1
        and vectors.shape[1] >= _LEAST_WIDTH
    )


class SentenceEncoder:
    """A program that returns a vector for each sentence, with its tokenizer."""

    def __init__(self, program: Program, tokenizer: Tokenizer) -> None:
        if not encodes_sentences(program.methods):
            raise InputError(
                f"{program.name} is not a sentence encoder: its method {_METHOD!r} must take "
                "tokens (sentences, length) and return a vector for each sentence"
            )
        vectors = program.methods[_METHOD].outputs[0]
        assert isinstance(vectors, TensorInfo)
        self._batches = RowBatches(program, _METHOD)
        self._width = vectors.shape[1]
        self._tokenizer = tokenizer

    async def embed(self, texts: Sequence[str], progress: Progress | None = None) -> Array:
        """Return vectors (texts, width), each of length 1. Texts that are too long are cut."""
        return await self.embed_tokens(await in_thread(self.tokens_of, texts), progress)

    def tokens_of(self, texts: Sequence[str]) -> list[Array]:
        """Return the tokens of each text, (length,); a text that is too long is cut."""
        longest = self._batches.longest
        return [self._tokenizer.encode_batch([text], longest, pad=_PAD)[0][0] for text in texts]

    async def embed_tokens(
        self, tokens: Sequence[Array], progress: Progress | None = None
    ) -> Array:
        """Return vectors (texts, width), each of length 1, of tokens by `tokens_of`."""
        found = await self._batches.run([tokens], [_PAD], progress)
        rows = np.array([vector for (vector,) in found], np.float64)
        return normalized(rows.reshape(len(tokens), self._width))

    async def rank(
        self, query: str, texts: Sequence[str], progress: Progress | None = None
    ) -> list[Ranked]:
        """Return the texts, the most similar to the query first."""
        if not texts:
            return []
        first, *others = await self.embed([query, *texts], progress)
        pairs = zip(texts, others, strict=True)
        found = [Ranked(float(first @ row), text, at) for at, (text, row) in enumerate(pairs)]
        return sorted(found, key=lambda one: -one.score)


def normalized(vectors: Array) -> Array:
    """Return vectors (count, width) of length 1; vectors of length 0 stay."""
    norms: Array = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)
