"""text-classification: a label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.encoder import TextTask, checked_text, cutting
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import text_form
from webpte.tasks.scores import best, function_name, function_of, labels_of
from webpte.tasks.task import task

_LABELLED: Any = object()  # stands for the label alone
Array = np.ndarray


class SequenceClassifier(TextTask):
    """A task whose program returns logits (texts, labels)."""

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.labels = labels_of(self.config, self.outputs[0].shape[-1])

    async def logits(self, pairs: Sequence[Sequence[str]], cut: str | None) -> Array:
        """Return logits (pairs, labels) of texts, or of pairs of texts."""
        found = await self.run([self.sequence(texts, cut=cut) for texts in pairs])
        rows = np.array([row for (row,) in found], np.float32)
        return rows.reshape(len(pairs), len(self.labels))


@task("text-classification", form=text_form(top_k=None, truncation=True))
class TextClassification(SequenceClassifier):
    """Classifies texts.

    await task("Fine!")                              # [{"label": ..., "score": ...}]
    await task({"text": "a", "text_pair": "b"})      # {"label": ..., "score": ...}
    await task(["one", "two"], top_k=2)              # for each text, its two best labels
    """

    def compiled(self) -> dict[str, Any]:
        named = function_name(None, self.config, len(self.labels))
        result = {"kind": "scores", "labels": self.labels, "function": named}
        return self.described(result, pairs=True)

    async def __call__(
        self,
        inputs: Any,
        *,
        top_k: int | None = _LABELLED,
        function_to_apply: str | None = None,
        truncation: bool = False,
    ) -> Any:
        """Return labels with scores.

        inputs   a text, a pair of texts {"text", "text_pair"}, or a list of them
        top_k    the number of labels for each; None for all; by default only the best
        function_to_apply  "softmax", "sigmoid" or "none"; by default chosen by the config
        truncation         cut long texts; otherwise they are an error
        """
        many = isinstance(inputs, list | tuple)
        pairs = [_texts_of(one) for one in (inputs if many else [inputs])]
        function = function_of(function_to_apply, self.config, len(self.labels))
        scores = function(await self.logits(pairs, cutting(truncation)))
        if top_k is not _LABELLED:
            found: list[Any] = [best(self.labels, row, top_k) for row in scores]
            return found if many else found[0]
        found = [best(self.labels, row, 1)[0] for row in scores]
        return found if many or isinstance(inputs, str) else found[0]


def _texts_of(given: Any) -> list[str]:
    """Return a text or two."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping) and given.keys() <= {"text", "text_pair"} and "text" in given:
        first, second = checked_text(given["text"]), given.get("text_pair")
        # The pipelines treat an empty second text as absent.
        return [first, checked_text(second)] if second else [first]
    raise InputError(
        f'give a text, or two as {{"text": ..., "text_pair": ...}}, not a {type(given).__name__}'
    )
