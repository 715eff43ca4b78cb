"""zero-shot-classification: scores of a caller's labels, by a model that judges statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.llm.text.sequences import FIRST
from webpte.tasks.encoder import checked_text
from webpte.tasks.form import LABELS, SENTENCE, TEXT, Field, TaskForm
from webpte.tasks.scores import softmax
from webpte.tasks.task import task
from webpte.tasks.text_classification import SequenceClassifier

Array = np.ndarray

_TEMPLATE = "This example is {}."


@task(
    "zero-shot-classification",
    form=TaskForm(
        TEXT,
        (
            Field("text", "text", SENTENCE),
            Field("labels", LABELS.label, "weather, money, travel", 1, ","),
        ),
    ),
)
class ZeroShotClassification(SequenceClassifier):
    """Scores how well labels fit a text.

    The model judges whether a text entails a statement: a label of its config begins with "entail".

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
        """Return the labels, the best first, with scores.

        sequences         a text, or a list of texts; long texts are cut
        candidate_labels  a list, or a text with commas between labels
        multi_label       judge each label separately, not against each other
        """
        labels = candidates(candidate_labels)
        statements = filled_in(hypothesis_template, labels)
        many = isinstance(sequences, list | tuple)
        texts = [checked_text(text) for text in (sequences if many else [sequences])]
        pairs = [(text, statement) for text in texts for statement in statements]
        logits = await self.logits(pairs, FIRST)
        of_texts = logits.reshape(len(texts), len(labels), len(self.labels))
        found = [
            self._judge(text, labels, rows, multi_label)
            for text, rows in zip(texts, of_texts, strict=True)
        ]
        return found if many else found[0]

    def _judge(
        self, text: str, labels: Sequence[str], logits: Array, multi_label: bool
    ) -> dict[str, Any]:
        """Return the labels of a text by their logits (labels, classes)."""
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


def candidates(labels: Any) -> list[str]:
    """Return a caller's labels: a list, or a text with commas between them."""
    if isinstance(labels, str):
        named = [label.strip() for label in labels.split(",")]
        labels = [label for label in named if label]
    return [checked_text(label) for label in labels]


def filled_in(template: str, labels: Sequence[str]) -> list[str]:
    """Return a statement for each label; raise InputError without labels."""
    try:
        statements = [template.format(label) for label in labels]
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(f"hypothesis_template cannot be filled in: {error}") from error
    if not labels or statements[0] == template:
        raise InputError("give a label or more, and a hypothesis_template with {} for each")
    return statements
