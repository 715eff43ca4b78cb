"""Vectors of texts to compare with vectors of pictures, by CLIP and similar models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from webpte.errors import InputError
from webpte.llm.text import Tokenizer
from webpte.llm.text.batches import RowBatches
from webpte.llm.text.sequences import FIRST, cut_texts, encode_text, join_texts, room_for
from webpte.tasks.files import CONFIG, ModelFiles

Array = np.ndarray
METHOD = "text_encoder"
_SIGLIP_LENGTH = 64  # tokens per text, as in training
_HIGHEST = 2  # CLIP's old configs name this as the last token, and mean the highest number


class TextVectors:
    """A program's method that turns texts into vectors.

    It takes tokens (texts, length), and numbers that are 1 at the token whose state stands for the
    text, and 0 elsewhere.
    """

    def __init__(self, files: ModelFiles, task: str) -> None:
        assert files.tokenizer is not None  # always there: these tasks need it
        self.tokenizer: Tokenizer = files.tokenizer
        self._name = files.program.name
        self._rows = RowBatches(files.program, METHOD)
        if self._rows.inputs != 2:
            raise InputError(
                f"{self._name} is not a program for {task}: its method {METHOD!r} must take "
                "tokens, and which of them is the last"
            )
        config = files.table(CONFIG)
        kind = config.text("model_type", "clip")
        self.siglip = kind == "siglip"
        text = config.table("text_config", None) if kind == "clip" else None  # only in CLIP's
        self._end = _HIGHEST if text is None else text.integer("eos_token_id", _HIGHEST)
        self._pad = self.tokenizer.id_of(self.tokenizer.special.get("pad_token", "")) or 0
        longest = self._rows.longest
        self._longest = min(longest, _SIGLIP_LENGTH) if self.siglip else longest

    async def __call__(self, texts: Sequence[str]) -> Array:
        """Return a vector for each text, (texts, width)."""
        rows = [self._tokens(text) for text in texts]
        ends = [len(row) - 1 if self.siglip else last_token(row, self._end) for row in rows]
        lasts = [np.eye(len(row), dtype=np.int64)[at] for row, at in zip(rows, ends, strict=True)]
        found = await self._rows.run([rows, lasts], (self._pad, 0))
        return np.stack([vector.astype(np.float32, copy=False) for (vector,) in found])

    def _tokens(self, text: str) -> Sequence[int]:
        encoded = [encode_text(self.tokenizer, text)]
        if self.siglip:
            encoded = cut_texts(encoded, room_for(self.tokenizer, 1, self._longest), FIRST)
        tokens = list(join_texts(self.tokenizer, encoded).tokens)
        if len(tokens) > self._longest:
            raise InputError(
                f"{text[:40]!r} has {len(tokens)} tokens; {self._name} takes {self._longest}: "
                "give shorter labels"
            )
        return tokens + [self._pad] * (self._longest - len(tokens)) if self.siglip else tokens


def last_token(tokens: Sequence[int], end: int) -> int:
    """Return the index of the token whose state stands for the text, by CLIP's config."""
    if end == _HIGHEST:
        return int(np.argmax(tokens))
    return list(tokens).index(end) if end in tokens else 0
