"""Answers of a language model from documents, with citations.

    reply = await webpte.tasks.retrieval.answer(chat, task.index, "How is it cleaned?")
    async for piece in reply:
        print(piece, end="")
    for cited in reply.citations:
        print(cited.number, cited.passage.document, cited.passage.page, cited.passage.text)

The passages that are nearest to the question are put before it, with numbers, and the model is
asked to name the numbers in its answer: "It is washed by hand [2]."
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from webpte.errors import InputError
from webpte.llm.chat import Chat, ReplyOptions
from webpte.llm.reply import Reply
from webpte.tasks.retrieval.index import Index, Passage

_TASK = (
    "Answer the question with the passages below, and with nothing else. After each statement, "
    "write the number of the passage that says so, such as [1]. If they do not answer the "
    "question, say that they do not."
)
_CITED = re.compile(r"\[(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\]")
_LEAST_CHARACTERS = 40  # least length of a shortened passage
_STATEMENT = 120  # characters, where citing is required: automata grow with it


@dataclass(frozen=True)
class Citation:
    """A passage that an answer names by its number."""

    number: int
    passage: Passage


class CitedReply:
    """An answer while it is generated: iterate over its pieces of text, or await the whole text.

    passages  passages given to the model, number 1 first
    reply     the answer of the chat
    """

    def __init__(self, reply: Reply, passages: Sequence[Passage]) -> None:
        self.reply = reply
        self.passages = tuple(passages)

    @property
    def text(self) -> str:
        """The answer so far."""
        return self.reply.text

    @property
    def citations(self) -> list[Citation]:
        """The passages that the answer names so far, in that order, each once."""
        numbers = [int(one) for run in _CITED.findall(self.text) for one in re.split(r"\D+", run)]
        known = [one for one in dict.fromkeys(numbers) if 0 < one <= len(self.passages)]
        return [Citation(one, self.passages[one - 1]) for one in known]

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        return await anext(self.reply)

    def __await__(self) -> Generator[Any, None, str]:
        return self.reply.__await__()


async def answer(
    chat: Chat,
    index: Index,
    question: str,
    *,
    passages: int = 4,
    must_cite: bool = False,
    max_new_tokens: int = 256,
    **options: Unpack[ReplyOptions],
) -> CitedReply:
    """Ask a chat a question about the documents of an index.

    passages   how many to put into the question, if the context has room; the nearest come first,
               and the last may be cut
    must_cite  let every statement end with a number, by a constraint on the answer, because small
               models forget numbers
    options    options of `Chat.send`

    The question with its passages becomes a message of the chat; use a new chat for each question
    to keep the context free. Raises InputError if the index is empty, or not even a part of a
    passage fits.
    """
    found = await index.search(question, passages)
    if not found:
        raise InputError("there are no documents to answer from: add some to the index first")
    if must_cite and any(options.get(name) for name in ("regex", "schema", "choices")):
        raise InputError("must_cite is a constraint, and an answer has one: leave the other out")
    given = _fitting(chat, question, found, max_new_tokens)
    if must_cite:
        options["regex"] = _statements(len(given))
    reply = chat.send(prompt_of(question, given), max_new_tokens, **options)
    return CitedReply(reply, given)


def prompt_of(question: str, passages: Sequence[Passage]) -> str:
    """Return the message of a question with numbered passages."""
    numbered = [f"[{at}] {place_of(one)}\n{one.text}" for at, one in enumerate(passages, 1)]
    return "\n\n".join([_TASK, *numbered, f"Question: {question}"])


def place_of(passage: Passage) -> str:
    """Return a passage's place for people: the document, and its page or heading."""
    inside = f"page {passage.page}" if passage.page is not None else passage.heading
    return f"{passage.document}, {inside}" if inside else passage.document


def _statements(count: int) -> str:
    """Return the expression of statements, each of which ends with a number of a passage."""
    numbers = "|".join(map(str, range(1, count + 1)))
    return rf"(([^\[\].!?\n]|[0-9]\.[0-9]){{1,{_STATEMENT}}}\[({numbers})\][.!?]?)+"


def _fitting(
    chat: Chat, question: str, passages: Sequence[Passage], max_new_tokens: int
) -> list[Passage]:
    """Return the passages that the context has room for besides the question and its answer."""

    def fits(given: Sequence[Passage]) -> bool:
        return chat.has_room(prompt_of(question, given), max_new_tokens)

    kept = list(passages)
    while kept and not fits(kept):
        kept.pop()
    if len(kept) < len(passages):
        part = _cut(passages[len(kept)], lambda one: fits([*kept, one]))
        kept += [] if part is None else [part]
    if not kept:
        raise InputError(
            "the context of the model has no room for the question and a part of a passage: ask a "
            "shorter question, or use a model with a longer context"
        )
    return kept


def _cut(passage: Passage, fits: Callable[[Passage], bool]) -> Passage | None:
    """Return the beginning of a passage that fits; None if it would be too short."""
    low, high = 0, len(passage.text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_head(passage, middle)) else (low, middle)
    found = _head(passage, low)
    return found if len(found.text) >= min(_LEAST_CHARACTERS, len(passage.text)) else None


def _head(passage: Passage, count: int) -> Passage:
    text = passage.text[:count]
    if count < len(passage.text) and " " in text:
        text = text[: text.rindex(" ")]
    return replace(passage, text=text.rstrip(), end=passage.start + len(text.rstrip()))
