"""feature-extraction: vectors of the tokens of a text, or of the text as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.llm.text.sentences import normalized
from webpte.tasks.encoder import TextTask, checked_text, cutting
from webpte.tasks.files import CONFIG, TOKENIZER, TOKENIZER_CONFIG
from webpte.tasks.form import text_form
from webpte.tasks.task import task

Array = np.ndarray
_POOLINGS = ("none", "mean", "cls")


@task("feature-extraction", form=text_form(pooling="mean", truncation=True))
class FeatureExtraction(TextTask):
    """Turns texts into vectors.

    (vector,) = await task("Hello", pooling="mean", normalize=True)     # (1, width)

    A program that returns a vector for each text, such as a sentence encoder, needs no pooling.
    """

    needed = (TOKENIZER,)
    wanted = (CONFIG, TOKENIZER_CONFIG)
    ranks = ((2, 3),)

    def compiled(self) -> dict[str, Any]:
        return self.described({"kind": "vectors", "pooling": "mean"})

    async def __call__(
        self,
        inputs: Any,
        *,
        pooling: str = "none",
        normalize: bool = False,
        truncation: bool = False,
    ) -> Any:
        """Return vectors as NumPy arrays.

        inputs     a text, or a list of texts
        pooling    "none": (1, tokens, width) for a text, and a list of such arrays for a list;
                   "mean" of its tokens, or the first token's vector ("cls"): (texts, width)
        normalize  make vectors 1 long
        """
        if pooling not in _POOLINGS:
            raise InputError(f"pooling is {pooling!r}; there are {', '.join(_POOLINGS)}")
        many = isinstance(inputs, list | tuple)
        texts = [checked_text(text) for text in (inputs if many else [inputs])]
        cut = cutting(truncation)
        rows = await self.run([self.sequence([text], cut=cut) for text in texts])
        width = self.outputs[0].shape[-1]
        if len(self.outputs[0].shape) == 2 or pooling != "none":
            pooled = np.array([_pooled(row, pooling) for (row,) in rows], np.float32)
            pooled = pooled.reshape(len(texts), width)
            return normalized(pooled) if normalize else pooled
        vectors = [(normalized(row) if normalize else row)[None] for (row,) in rows]
        return vectors if many else vectors[0]


def _pooled(vectors: Array, pooling: str) -> Array:
    if vectors.ndim == 1:
        return vectors
    chosen: Array = vectors.mean(axis=0) if pooling == "mean" else vectors[0]
    return chosen
