"""Messages as tokens, which keep the tokens that the model generated.

The same text can be encoded in other tokens than a model generated for it. If a conversation were
encoded again each time, the cache would be useless from the first difference on, and the model
would read another answer than it gave. So an answer is kept with all tokens up to its end, and a
longer conversation is these tokens, followed by the tokens of the text that the template puts after
it.

In the text of a prompt, a mark with its number stands for each picture: so the same text with other
pictures is another text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from webpte.errors import ChatTemplateError, InputError
from webpte.llm.picture_session import Picture
from webpte.llm.text import ChatTemplate, Tokenizer

_MARK = "content"  # the text of a message whose end is searched for


@dataclass(frozen=True)
class GeneratedSpan:
    """An answer as generated: its prompt as text, the tokens of both, and the start of the
    answer's.
    """

    prompt: str
    tokens: tuple[int, ...]
    start: int


@dataclass(frozen=True, eq=False)
class PromptPicture:
    """A picture of a message.

    pixels   the picture that was given
    text     the text in its place in a prompt
    parts    the rows of the conversation in that text: the picture, or its tiles
    """

    pixels: np.ndarray
    text: str
    parts: tuple[Picture, ...]

    @property
    def mark(self) -> str:
        return f"\ufffc{self.parts[0].tokens[0]}\ufffc"


class PictureReader(Protocol):
    """Preparation of pictures for the prompts of a conversation.

    image   the text that a chat template writes for a picture
    """

    @property
    def image(self) -> str: ...

    def see(self, pixels: np.ndarray) -> PromptPicture:
        """Return a picture (height, width, 3) of bytes for prompts."""

    def encode(self, text: str, pictures: Sequence[PromptPicture], special: bool) -> list[int]:
        """Return the tokens of a text in which `image` stands for each picture."""


@dataclass(frozen=True)
class Turn:
    """A message, with its `span` if the model generated it and it was not changed since."""

    role: str
    content: str
    span: GeneratedSpan | None = None
    pictures: tuple[PromptPicture, ...] = ()

    @property
    def message(self) -> dict[str, Any]:
        """The message as a table, with `pictures` if it has any."""
        found: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.pictures:
            found["pictures"] = [picture.pixels for picture in self.pictures]
        return found

    def says_the_same(self, other: Turn) -> bool:
        """Return whether another turn has the same role, text and pictures."""
        mine, theirs = (
            (one.role, one.content, [picture.mark for picture in one.pictures])
            for one in (self, other)
        )
        return mine == theirs


@dataclass(frozen=True)
class Prompt:
    """Text and tokens of a prompt; `retokenized` answers have other tokens than generated."""

    text: str
    tokens: tuple[int, ...]
    retokenized: int


class PromptMaker:
    """Renders messages with a chat template, and encodes them.

    in_parts   whether the template takes the content of messages as a list of parts
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        variables: Mapping[str, Any],
        reader: PictureReader | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._reader = reader
        self._template = template
        self._variables = dict(variables)
        self.in_parts = not self._shows(_MARK) and self._shows([{"type": "text", "text": _MARK}])

    def _shows(self, content: Any) -> bool:
        """Return whether the template writes a user's message with such a content."""
        try:
            return _MARK in self._template.render(
                [{"role": "user", "content": content}], **self._variables
            )
        except ChatTemplateError:
            return False

    def _messages(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        """Return messages in the template's form; a reader of pictures needs parts."""
        messages: list[dict[str, Any]] = []
        for turn in turns:
            content: Any = turn.content
            if self.in_parts or turn.pictures:
                parts = [{"type": "image"} for _ in turn.pictures]
                content = [*parts, {"type": "text", "text": turn.content}]
            messages.append({"role": turn.role, "content": content})
        return messages

    def prompt(self, turns: Sequence[Turn]) -> Prompt:
        """Return the conversation, up to the place where the template begins the answer."""
        text = self._template.render(self._messages(turns), **self._variables)
        pictures = {one.mark: one for turn in turns for one in turn.pictures}
        text = self._marked(text, [one.mark for turn in turns for one in turn.pictures])
        answers = [turn for turn in turns if turn.role == "assistant"]
        for count, turn in enumerate(reversed(answers)):
            rest = _after(turn, text)
            if rest is not None and turn.span is not None:
                tokens = (*turn.span.tokens, *self._encode(rest, pictures))
                return Prompt(text, tokens, count)
        return Prompt(text, tuple(self._encode(text, pictures)), len(answers))

    def _marked(self, text: str, marks: Sequence[str]) -> str:
        """Return a template's text with the marks of its pictures."""
        if self._reader is None or not marks:
            return text
        between = text.split(self._reader.image)
        if len(between) != len(marks) + 1:
            raise InputError(
                f"the template's text has {self._reader.image} {len(between) - 1} times; pictures "
                f"of the messages: {len(marks)}. Leave it out of the text of messages"
            )
        pairs = zip(marks, between[1:], strict=True)
        return between[0] + "".join(mark + after for mark, after in pairs)

    def _encode(self, text: str, pictures: Mapping[str, PromptPicture]) -> list[int]:
        """Return the tokens of a text with marks of pictures."""
        if self._reader is None or not pictures:
            return self._tokenizer.encode(text, special=False)
        marks = re.compile("|".join(map(re.escape, pictures)))
        found = [pictures[mark] for mark in marks.findall(text)]
        return self._reader.encode(marks.sub(self._reader.image, text), found, special=False)

    def continue_(self, prompt: Prompt, answer: Turn | None) -> Prompt:
        """Return the prompt with the beginning of the answer, in generated tokens if known."""
        if answer is None:
            return prompt
        if answer.span is not None:
            own = answer.span.tokens[answer.span.start :]
            return Prompt(prompt.text, (*prompt.tokens, *own), prompt.retokenized)
        tokens = self._tokenizer.encode(answer.content, special=False)
        return Prompt(prompt.text, (*prompt.tokens, *tokens), prompt.retokenized + 1)

    def turn_end(self) -> int | None:
        """Return the special token that the template puts after an answer, or None."""
        messages = self._messages([Turn("user", "a"), Turn("assistant", _MARK)])
        try:
            text = self._template.render(messages, add_generation_prompt=False, **self._variables)
        except ChatTemplateError:
            # the template takes other messages only; tokenizer and program have stop tokens, too
            return None
        after = text.rpartition(_MARK)[2].lstrip()
        tokens = self._tokenizer.encode(after, special=False)
        plain, written = (self._tokenizer.decode(tokens[:1], special) for special in (False, True))
        return tokens[0] if written and not plain else None


def end_tokens(tokenizer: Tokenizer, prompts: PromptMaker | None) -> frozenset[int]:
    """Return the tokens with which a tokenizer, and its template if it has one, end answers."""
    eos = tokenizer.special.get("eos_token")
    known = {tokenizer.id_of(eos) if eos else None, prompts.turn_end() if prompts else None}
    return frozenset(token for token in known if token is not None)


def _after(turn: Turn, text: str) -> str | None:
    """Return the text after a turn; None if the text does not have the turn as generated.

    Templates may strip an answer, or put a space between a prompt and its answer.
    """
    if turn.span is None or not text.startswith(turn.span.prompt):
        return None
    rest = text[len(turn.span.prompt) :]
    for content, found in ((turn.content, rest), (turn.content.strip(), rest.lstrip())):
        if found.startswith(content):
            return found[len(content) :]
    return None
