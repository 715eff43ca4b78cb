"""Embeds sentences with the exported encoder, and ranks them by how near they are to a query.

    encoder = await SentenceEncoder.load("model.pte", vocabulary)     # on WebGPU, in the browser
    for score, sentence in await encoder.rank("rain tomorrow", sentences): ...

This file needs webpte and nothing of a page, so it serves in PyScript, JupyterLite and CPython;
there, `python rank.py .webpte/models/minilm QUERY` ranks its sentences with NumPy.
"""

from __future__ import annotations

import asyncio
import json
import string
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import webpte

_DROPPED = ("Mn", "Cc", "Cf")  # Unicode's accents and control characters


class WordPieces:
    """BERT's tokenizer for lower-case text: the longest known piece, again and again."""

    def __init__(self, vocabulary: str) -> None:
        """`vocabulary` is the content of vocab.txt: the line's number is the token."""
        self._tokens = {piece: token for token, piece in enumerate(vocabulary.splitlines())}

    def encode(self, text: str, max_length: int) -> list[int]:
        pieces = [piece for word in _words(text) for piece in self._split(word)]
        kept = ["[CLS]", *pieces[: max_length - 2], "[SEP]"]
        return [self._tokens[piece] for piece in kept]

    def _split(self, word: str) -> list[str]:
        pieces, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._tokens), None)
            if end is None:
                return ["[UNK]"]
            pieces.append(prefix + word[start:end])
            start = end
        return pieces


def _words(text: str) -> list[str]:
    """Lower case without accents; punctuation and Chinese characters are words of their own."""
    plain = unicodedata.normalize("NFD", " ".join(text.lower().split()))
    kept = (char for char in plain if unicodedata.category(char) not in _DROPPED)
    return "".join(f" {char} " if _stands_alone(char) else char for char in kept).split()


def _stands_alone(char: str) -> bool:
    punctuation = char in string.punctuation or unicodedata.category(char).startswith("P")
    return punctuation or "\u4e00" <= char <= "\u9fff"


class SentenceEncoder:
    def __init__(self, program: webpte.Program, pieces: WordPieces) -> None:
        self._program = program
        self._pieces = pieces
        tokens = program.methods["forward"].inputs[0]
        assert isinstance(tokens, webpte.TensorInfo)
        self._max_sentences, self._max_length = tokens.shape  # the file says how many at once

    @classmethod
    async def load(cls, model: Any, vocabulary: str, device: str = "webgpu") -> SentenceEncoder:
        return cls(await webpte.load(model, device=device), WordPieces(vocabulary))

    async def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """(sentences, 384), each of unit length."""
        rows = [self._pieces.encode(sentence, self._max_length) for sentence in sentences]
        # Neighbours in length share a batch, so little is computed for padding.
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        found: dict[int, np.ndarray] = {}
        for first in range(0, len(order), self._max_sentences):
            batch = order[first : first + self._max_sentences]
            (vectors,) = await self._program.forward(_padded([rows[index] for index in batch]))
            found.update(zip(batch, vectors, strict=True))
        return np.stack([found[index] for index in range(len(rows))])

    async def rank(self, query: str, sentences: Sequence[str]) -> list[tuple[float, str]]:
        """The sentences with their similarity to the query, the nearest first."""
        vectors = await self.embed([query, *sentences])
        scores = vectors[1:] @ vectors[0]
        order = np.argsort(-scores, kind="stable")
        return [(float(scores[index]), sentences[index]) for index in order]

    def close(self) -> None:
        self._program.close()


def _padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int64)  # 0 is [PAD]
    for target, row in zip(tokens, rows, strict=True):
        target[: len(row)] = row
    return tokens


async def main(folder: Path, query: str) -> None:
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8")
    ranking = json.loads((folder / "ranking.json").read_text(encoding="utf-8"))
    sentences = [sentence for _, sentence in ranking[0]["ranked"]]
    encoder = await SentenceEncoder.load(folder / "model.pte", vocabulary, device="numpy")
    for score, sentence in await encoder.rank(query, sentences):
        print(f"{score:+.3f}  {sentence}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
