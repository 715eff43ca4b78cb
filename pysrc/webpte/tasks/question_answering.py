"""question-answering: the part of a text that answers a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.llm.text.sequences import TokenSequence, join_texts, room_for, windows
from webpte.tasks.encoder import TextTask, checked_text
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PASSAGE, TEXT, Field, TaskForm
from webpte.tasks.scores import Found, check_top, softmax
from webpte.tasks.task import task

Array = np.ndarray
_MOST_TOKENS, _MOST_OVERLAP = 384, 128  # for the parts of a long context
_MASKED = -10000.0


@task(
    "question-answering",
    form=TaskForm(
        TEXT,
        (
            Field("question", "question", "Where was Ada born?", 1, named=True),
            Field("context", "text", PASSAGE, 5, named=True),
        ),
    ),
)
class QuestionAnswering(TextTask):
    """Finds answers in a context; a long context is read in parts that overlap.

    await task(question="Who came?", context="Then Ada came.")
    # {"score": 0.9, "start": 5, "end": 8, "answer": "Ada"}
    """

    ranks = ((3,),)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        if self.outputs[0].shape[-1] != 2:
            self.refuse(f"it returns {self.outputs[0]}, not logits of starts and ends")

    async def __call__(
        self,
        inputs: Any = None,
        *,
        question: str | None = None,
        context: str | None = None,
        top_k: int = 1,
        max_answer_len: int = 15,
        max_seq_len: int | None = None,
        doc_stride: int | None = None,
        handle_impossible_answer: bool = False,
        align_to_words: bool = True,
    ) -> Any:
        """Return the answer; with `top_k` above 1 a list of answers, the best first.

        inputs          {"question", "context"}, or a list of them, in place of both arguments
        max_answer_len  the largest number of tokens of an answer
        max_seq_len, doc_stride   tokens of a part of the context with the question, and of the
                        overlap of two parts
        handle_impossible_answer  "" may be an answer, too
        align_to_words            an answer has whole words
        """
        check_top(top_k)
        if type(max_answer_len) is not int or max_answer_len < 1:
            raise InputError(f"max_answer_len is {max_answer_len!r}; an answer has a token or more")
        if inputs is None:
            inputs = {"question": question, "context": context}
        many = isinstance(inputs, list | tuple)
        length = min(max_seq_len or _MOST_TOKENS, self.longest)
        asked = [_checked(one) for one in (inputs if many else [inputs])]
        parts = [self._parts(*one, length, doc_stride) for one in asked]
        outputs = iter(await self.run([part for group in parts for part in group]))
        found = []
        for (_, text), group in zip(asked, parts, strict=True):
            spans = _Spans(top_k, max_answer_len, align_to_words)
            for part in group:
                (logits,) = next(outputs)
                spans.add(part, text, logits, self._first(part))
            answers = spans.answers
            if handle_impossible_answer:
                answers.append({"score": spans.none, "start": 0, "end": 0, "answer": ""})
            best = sorted(answers, key=lambda row: -float(row["score"]))[:top_k]
            found.append(best[0] if len(best) == 1 else best)
        return found if many else found[0]

    def _parts(
        self, question: str, context: str, length: int, overlap: int | None
    ) -> list[TokenSequence]:
        asked, text = self.encode(question), self.encode(context, places=True)
        room = room_for(self.tokenizer, 2, length) - len(asked.tokens)
        if room < 1:
            raise InputError(
                f"the question has {len(asked.tokens)} tokens, which leaves no room for a context: "
                f"a call takes {length}"
            )
        if overlap is None:
            overlap = min(length // 2, _MOST_OVERLAP)
        # An overlap does not matter for a text that fits.
        cut = windows(text, room, overlap) if len(text.tokens) > room else [text]
        return [join_texts(self.tokenizer, (asked, part)) for part in cut]

    def _first(self, part: TokenSequence) -> Array:
        """Return a mask of the token at the start of a sequence."""
        number = self.tokenizer.id_of(self.tokenizer.special.get("cls_token", "[CLS]"))
        return np.array([token == number for token in part.tokens])


class _Spans:
    """The best answers so far, over all parts of a context."""

    def __init__(self, top_k: int, longest: int, whole_words: bool) -> None:
        self.answers: list[Found] = []
        self.none = 1e6  # the lowest score of "no answer"
        # Some candidates become equal when they are extended to whole words.
        self._candidates = top_k * 2 + 10 if whole_words else top_k
        self._longest, self._whole_words = longest, whole_words

    def add(self, part: TokenSequence, text: str, logits: Array, first: Array) -> None:
        """Add the answers of a part; `logits` (tokens, 2) rate starts and ends."""
        allowed = np.array([owner == 1 for owner in part.texts]) | first
        start, end = (softmax(np.where(allowed, row, _MASKED)) for row in logits.T)
        self.none = min(self.none, float(start[0] * end[0]))
        start[0] = end[0] = 0
        for first_token, last_token, score in self._best(start, end, allowed):
            low, high = self._characters(part, first_token, last_token)
            answer = text[low:high]
            same = next(
                (row for row in self.answers if row["answer"].lower() == answer.lower()), None
            )
            if same is None:
                self.answers.append({"score": score, "start": low, "end": high, "answer": answer})
            else:
                same["score"] += score

    def _best(self, start: Array, end: Array, allowed: Array) -> list[tuple[int, int, float]]:
        """Return the likeliest first and last tokens, with scores."""
        scores = np.tril(np.triu(np.outer(start, end)), self._longest - 1)
        flat = scores.ravel()
        if self._candidates == 1:
            order = np.array([flat.argmax()])
        elif len(flat) <= self._candidates:
            order = np.argsort(-flat)
        else:
            few = np.argpartition(-flat, self._candidates)[: self._candidates]
            order = few[np.argsort(-flat[few])]
        firsts, lasts = np.unravel_index(order, scores.shape)
        pairs = zip(firsts.tolist(), lasts.tolist(), strict=True)
        return [
            (low, high, float(scores[low, high]))
            for low, high in pairs
            if allowed[low] and allowed[high]
        ]

    def _characters(self, part: TokenSequence, first: int, last: int) -> tuple[int, int]:
        low, high = part.places[first], part.places[last]
        if not self._whole_words or low.word is None or high.word is None:
            return low.start, high.end
        words: Sequence[int | None] = [
            place.word if owner == 1 else None
            for place, owner in zip(part.places, part.texts, strict=True)
        ]
        begin = words.index(low.word)
        end = len(words) - 1 - words[::-1].index(high.word)
        return part.places[begin].start, part.places[end].end


def _checked(given: Any) -> tuple[str, str]:
    """Return a question and a context."""
    if not isinstance(given, Mapping) or given.keys() != {"question", "context"}:
        raise InputError('give a question and a context, or {"question": ..., "context": ...}')
    for key in ("question", "context"):
        if given[key] is None or not checked_text(given[key]):
            raise InputError(f"the {key} is empty")
    return given["question"], given["context"]
