"""token-classification: a label for each token of a text, such as names of people and places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.llm.text.sequences import LONGEST, TokenSequence
from webpte.tasks.encoder import TextTask, checked_text
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import text_form
from webpte.tasks.scores import Found, labels_of, softmax
from webpte.tasks.task import task

Array = np.ndarray
_STRATEGIES = ("none", "simple")
_OUTSIDE = ("O",)


@task("token-classification", form=text_form(aggregation_strategy="simple"))
class TokenClassification(TextTask):
    """Finds entities.

    await task("Ada lives in Turin.", aggregation_strategy="simple")
    # [{"entity_group": "PER", "score": 0.99, "word": "ada", "start": 0, "end": 3}, ...]
    """

    ranks = ((3,),)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.labels = labels_of(self.config, self.outputs[0].shape[-1])
        self._unknown = self.tokenizer.id_of(self.tokenizer.special.get("unk_token", "[UNK]"))

    async def __call__(
        self,
        inputs: Any,
        *,
        aggregation_strategy: str = "none",
        ignore_labels: Sequence[str] = _OUTSIDE,
    ) -> Any:
        """Return entities with the place of each in the text; a list of lists for several texts.

        inputs   a text, or a list of texts; long texts are cut
        aggregation_strategy  "none": an entity for each token; "simple": neighbouring tokens with
                              the same label are an entity
        ignore_labels         labels to leave out
        """
        if aggregation_strategy not in _STRATEGIES:
            known = ", ".join(_STRATEGIES)
            raise InputError(f"aggregation_strategy is {aggregation_strategy!r}; there are {known}")
        many = isinstance(inputs, list | tuple)
        texts = [checked_text(text) for text in (inputs if many else [inputs])]
        sequences = [self.sequence([text], cut=LONGEST, places=True) for text in texts]
        found = []
        for text, one, (logits,) in zip(texts, sequences, await self.run(sequences), strict=True):
            entities = self._entities(text, one, logits)
            if aggregation_strategy == "simple":
                entities = [self._joined(group) for group in _groups(entities)]
            kept = [row for row in entities if not _ignored(row, ignore_labels)]
            found.append(kept)
        return found if many else found[0]

    def _entities(self, text: str, one: TokenSequence, logits: Array) -> list[Found]:
        """Return an entity for each token, except for special tokens."""
        entities = []
        for at, scores in enumerate(softmax(logits)):
            if one.texts[at] is None:
                continue
            token, place = one.tokens[at], one.places[at]
            label = int(scores.argmax())
            unknown = token == self._unknown
            word = text[place.start : place.end] if unknown else self.tokenizer.token_of(token)
            entities.append(
                {
                    "entity": self.labels[label],
                    "score": float(scores[label]),
                    "index": at,
                    "word": word or "",
                    "start": place.start,
                    "end": place.end,
                }
            )
        return entities

    def _joined(self, entities: Sequence[Found]) -> Found:
        return {
            "entity_group": entities[0]["entity"].split("-", 1)[-1],
            "score": float(np.mean([one["score"] for one in entities])),
            "word": self.tokenizer.join([one["word"] for one in entities]),
            "start": entities[0]["start"],
            "end": entities[-1]["end"],
        }


def _ignored(entity: Found, labels: Sequence[str]) -> bool:
    return entity.get("entity") in labels or entity.get("entity_group") in labels


def _tag(label: str) -> tuple[bool, str]:
    """Return whether a label begins an entity, and the entity's kind."""
    return label.startswith("B-"), label[2:] if label.startswith(("B-", "I-")) else label


def _groups(entities: Sequence[Found]) -> list[list[Found]]:
    groups: list[list[Found]] = []
    for entity in entities:
        begins, kind = _tag(entity["entity"])
        if groups and not begins and kind == _tag(groups[-1][-1]["entity"])[1]:
            groups[-1].append(entity)
        else:
            groups.append([entity])
    return groups
