"""Sentences as vectors, which are near each other for similar meanings: for encoders as MiniLM.

    encoder = webpte.text.SentenceEncoder(program, tokenizer)
    for found in await encoder.rank("How do I get my money back?", sentences):
        print(found.score, found.text)

The program has one input, tokens (sentences, length) with 0 after shorter sentences, and one
output, a vector for each sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.errors import ExecutionError, InputError
from webpte.runtime.base.info import MethodInfo, TensorInfo
from webpte.runtime.program import Program
from webpte.text.tokenizer import Tokenizer

Array = np.ndarray
Progress = Callable[[int, int], None]  # sentences done, and all

_METHOD = "forward"
_PAD = 0
_LEAST_WIDTH = 8  # of the vectors of a sentence encoder


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
        tokens = program.methods[_METHOD].inputs[0]
        vectors = program.methods[_METHOD].outputs[0]
        assert isinstance(tokens, TensorInfo)
        assert isinstance(vectors, TensorInfo)
        self._program = program
        self._width = vectors.shape[1]
        self._tokenizer = tokenizer
        self._dtype = np.dtype(tokens.dtype)
        (self._fewest, self._most), (self._shortest, self._longest) = tokens.bounds

    async def embed(self, texts: Sequence[str], progress: Progress | None = None) -> Array:
        """Return vectors (texts, width), each of length 1. Texts that are too long are cut."""
        return await self.embed_tokens(self.tokens_of(texts), progress)

    def tokens_of(self, texts: Sequence[str]) -> list[Array]:
        """Return the tokens of each text, (1, length); a text that is too long is cut."""
        return [self._tokenizer.encode_batch([text], self._longest, pad=_PAD)[0] for text in texts]

    async def embed_tokens(
        self, tokens: Sequence[Array], progress: Progress | None = None
    ) -> Array:
        """Return vectors (texts, width), each of length 1, of tokens by `tokens_of`."""
        # Neighbours in length share a batch, so little is computed for padding.
        order = sorted(range(len(tokens)), key=lambda at: tokens[at].shape[1])
        vectors: dict[int, Array] = {}
        for start in range(0, len(order), self._most):
            group = order[start : start + self._most]
            (found,) = await self._program.run(_METHOD, self._joined([tokens[at] for at in group]))
            vectors |= dict(zip(group, found[: len(group)].astype(np.float64), strict=True))
            if progress is not None:
                progress(len(vectors), len(tokens))
        listed = [vectors[at] for at in range(len(tokens))]
        rows = np.array(listed).reshape(len(tokens), self._width)
        if not np.isfinite(rows).all():  # sorting them would give an arbitrary rank
            raise ExecutionError(f"{self._program.name} returned vectors with NaN or infinities")
        norms: Array = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.maximum(norms, 1e-12)

    def _joined(self, rows: Sequence[Array]) -> Array:
        """Join rows into one array of tokens, at least as large as the program requires."""
        count = max(len(rows), self._fewest)
        length = max(self._shortest, *(row.shape[1] for row in rows))
        joined = np.full((count, length), _PAD, self._dtype)
        for at, row in enumerate(rows):
            joined[at, : row.shape[1]] = row[0]
        return joined

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
