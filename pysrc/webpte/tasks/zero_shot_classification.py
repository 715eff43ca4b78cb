"""zero-shot-classification: labels that the caller names, by a model that judges statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.encoder import checked_text
from webpte.tasks.scores import softmax
from webpte.tasks.task import task
from webpte.tasks.text_classification import SequenceClassifier
from webpte.text.sequences import FIRST

_TEMPLATE = "This example is {}."


@task("zero-shot-classification")
class ZeroShotClassification(SequenceClassifier):
    """Says how well labels fit a text.

    The model tells whether a text entails a statement: one label of its config begins with
    "entail".

    await task("It will rain.", ["weather", "sports"])
    # {"sequence": "It will rain.", "labels": ["weather", "sports"], "scores": [0.97, 0.03]}
    """

    async def __call__(
        self,
        sequences: Any,
        candidate_labels: Any,
        *,
        hypothesis_template: str = _TEMPLATE,
        multi_label: bool = False,
    ) -> Any:
        """Return the labels, the one that fits best first, with scores.

        sequences         a text, or a list of texts; one that is too long is cut
        candidate_labels  a list, or a text with commas between labels
        multi_label       judge each label by itself, in place of against each other
        """
        if isinstance(candidate_labels, str):
            named = [label.strip() for label in candidate_labels.split(",")]
            candidate_labels = [label for label in named if label]
        labels = [checked_text(label) for label in candidate_labels]
        try:
            statements = [hypothesis_template.format(label) for label in labels]
        except (KeyError, IndexError, ValueError) as error:
            raise InputError(f"hypothesis_template cannot be filled in: {error}") from error
        if not labels or statements[0] == hypothesis_template:
            raise InputError("give a label or more, and a hypothesis_template with {} for each")
        many = isinstance(sequences, list | tuple)
        found = [
            await self._judge(checked_text(text), labels, statements, multi_label)
            for text in (sequences if many else [sequences])
        ]
        return found if many else found[0]

    async def _judge(
        self, text: str, labels: Sequence[str], statements: Sequence[str], multi_label: bool
    ) -> dict[str, Any]:
        logits = await self.logits([(text, statement) for statement in statements], FIRST)
        entails = next(
            (at for at, label in enumerate(self.labels) if label.lower().startswith("entail")), -1
        )
        if multi_label or len(labels) == 1:
            contradicts = -1 if entails == 0 else 0
            scores = softmax(logits[:, [contradicts, entails]])[:, 1]
        else:
            scores = softmax(logits[:, entails])
        order = np.argsort(scores)[::-1].tolist()
        return {
            "sequence": text,
            "labels": [labels[at] for at in order],
            "scores": [float(scores[at]) for at in order],
        }
