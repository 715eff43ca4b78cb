"""fill-mask: the tokens that fit best where a text has a gap."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError, TextError
from webpte.llm.text.sequences import TokenSequence
from webpte.tasks.encoder import TextTask, checked_text, cutting
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import TEXT, Field, TaskForm
from webpte.tasks.scores import check_top, softmax
from webpte.tasks.task import task

Array = np.ndarray


@task(
    "fill-mask",
    form=TaskForm(TEXT, (Field("text", "text with [MASK]", "Rome is a [MASK].", 2),)),
)
class FillMask(TextTask):
    """Fills gaps, which are written as the tokenizer's mask token.

    await task("Rain is [MASK].")
    # [{"score": 0.6, "token": 4954, "token_str": "wet", "sequence": "rain is wet."}, ...]
    """

    ranks = ((3,),)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        if self.outputs[0].shape[-1] < self.tokenizer.vocabulary:
            self.refuse(f"it returns {self.outputs[0]}, not a number for each token")
        self.mask = self.tokenizer.special.get("mask_token", "[MASK]")
        number = self.tokenizer.id_of(self.mask)
        if number is None:
            raise TextError("the tokenizer has no mask_token, so texts cannot have gaps")
        self._gap = number

    async def __call__(
        self,
        inputs: Any,
        *,
        top_k: int = 5,
        targets: Any = None,
        truncation: bool = False,
    ) -> Any:
        """Return tokens with scores, the best first; for several gaps, a list for each gap.

        inputs   a text with a gap or more, or a list of texts
        targets  a token or a list of tokens: only these are considered
        """
        check_top(top_k)
        many = isinstance(inputs, list | tuple)
        texts = [checked_text(text) for text in (inputs if many else [inputs])]
        cut = cutting(truncation)
        sequences = [self.sequence([text], cut=cut) for text in texts]
        for text, one in zip(texts, sequences, strict=True):
            if self._gap not in one.tokens:
                raise InputError(f"{text[:40]!r} has no gap: write {self.mask} where one is")
        chosen = None if targets is None else self._numbers(targets)
        rows = await self.run(sequences)
        found = [
            self._filled(one, logits, top_k, chosen)
            for one, (logits,) in zip(sequences, rows, strict=True)
        ]
        return found if many and len(found) != 1 else found[0]

    def _numbers(self, targets: Any) -> list[int]:
        """Return the tokens of targets; a text without a token stands for its first token."""
        found: list[int] = []
        for target in [targets] if isinstance(targets, str) else targets:
            number = self.tokenizer.id_of(checked_text(target))
            tokens = self.tokenizer.encode(target, special=False) if number is None else [number]
            found += tokens[:1]
        if not found:
            raise InputError("none of the targets has a token")
        return sorted(set(found))

    def _filled(
        self, one: TokenSequence, logits: Array, top_k: int, chosen: list[int] | None
    ) -> list[Any]:
        gaps = [at for at, token in enumerate(one.tokens) if token == self._gap]
        numbers = np.arange(logits.shape[-1]) if chosen is None else np.array(chosen)
        found = []
        for gap in gaps:
            scores = softmax(logits[gap])[numbers]
            order = np.argsort(-scores, kind="stable")[:top_k]
            found.append(
                [
                    self._row(one, gap, int(numbers[at]), float(scores[at]), len(gaps) == 1)
                    for at in order
                ]
            )
        return found[0] if len(gaps) == 1 else found

    def _row(
        self, one: TokenSequence, gap: int, token: int, score: float, single: bool
    ) -> dict[str, Any]:
        tokens = [*one.tokens[:gap], token, *one.tokens[gap + 1 :]]
        return {
            "score": score,
            "token": token,
            "token_str": self.tokenizer.decode([token], special=True),
            "sequence": self.tokenizer.decode(tokens, special=not single),
        }
