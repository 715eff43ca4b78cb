"""Tasks of language models, which answer texts and chats: the base, and forms of chats."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from webpte.errors import ChatTemplateError, InputError
from webpte.llm import GenerationOptions, Generator, Reply
from webpte.llm.reply import StopStrings, stats_of
from webpte.llm.text import ChatTemplate, Tokenizer, check_fits
from webpte.tasks.answer_lock import AnswerLock
from webpte.tasks.files import ModelFiles
from webpte.tasks.task import Task

MAX_NEW_TOKENS = 256  # default of the pipelines


class LanguageTask(Task):
    """A task of a language model with a tokenizer, which gives a single answer at a time."""

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        assert files.tokenizer is not None  # always there: it is needed
        self.tokenizer: Tokenizer = files.tokenizer
        self._generator = Generator(files.program)
        check_fits(self.tokenizer, self._generator.vocabulary)
        self._turn = AnswerLock()  # an answer at a time changes the program's state

    async def _whole(self, pieces: AsyncGenerator[str, None]) -> str:
        """Return a whole answer, once the lock is free."""
        async with self._turn.taken(), aclosing(pieces):
            return "".join([piece async for piece in pieces])

    async def _pieces(
        self,
        tokens: Sequence[int],
        count: int,
        stops: Collection[int],
        options: GenerationOptions,
        before: tuple[str, Sequence[int]] = ("", ()),
    ) -> AsyncGenerator[str, None]:
        """Yield the text that follows tokens; no other answer may be under way.

        before   text and tokens that the answer continues
        """
        generation = self._generator.generate(tokens, count, stop=stops, **options)
        stats = stats_of(generation)
        async for piece in Reply(
            generation, self.tokenizer, StopStrings(()), stats, continued=before
        ):
            yield piece


def is_chat(value: Any) -> bool:
    """Return whether a value is a chat, or a list of chats."""
    if not isinstance(value, list | tuple) or not value:
        return False
    first = value[0]
    if isinstance(first, list | tuple):
        return bool(first) and isinstance(first[0], Mapping)
    return isinstance(first, Mapping) and "role" in first


def continues(chat: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a chat ends with the beginning of its answer."""
    return chat[-1].get("role") == "assistant"


def with_answer(chat: Sequence[Mapping[str, Any]], answer: str) -> list[Any]:
    """Return a chat with its answer; an answer that the chat begins is continued."""
    last = chat[-1]
    if not continues(chat):
        return [*chat, {"role": "assistant", "content": answer}]
    content = last["content"]
    if isinstance(content, str):
        return [*chat[:-1], {**last, "content": content + answer}]
    ended = {**content[-1], "text": content[-1]["text"] + answer}
    return [*chat[:-1], {**last, "content": [*content[:-1], ended]}]


def render_chat(
    template: ChatTemplate | None,
    messages: Sequence[Mapping[str, Any]],
    continued: bool,
    /,
    **variables: Any,
) -> str:
    """Return the text of messages; a `continued` text ends within its last message.

    Raises ChatTemplateError without a template.
    """
    if template is None:
        raise ChatTemplateError(
            "the model has no chat template: give a text, or write one into its "
            "tokenizer_config.json"
        )
    text = template.render(messages, **{"add_generation_prompt": not continued, **variables})
    return _until(text, messages[-1]) if continued else text


def _until(text: str, message: Mapping[str, Any]) -> str:
    """Return the text up to the end of the last message's content, which is continued."""
    last = message.get("content")
    if not isinstance(last, str):
        last = last[-1].get("text") if last else None
    if not last or last.strip() not in text:
        raise InputError("the last message cannot be continued: it does not end with a text")
    at = text.rindex(last.strip())
    end = at + len(last) if text.startswith(last, at) else at + len(last.rstrip())
    return text[:end]
