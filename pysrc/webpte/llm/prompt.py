"""Messages as tokens, such that what the model has said stays the tokens that it said.

The same text can be written in other tokens than a model chose for it. If a conversation were made
into tokens anew each time, the cache would be of no use from there on, and the model would read
another answer than it gave. So an answer is kept with all tokens up to its end, and a longer
conversation is those, and the tokens of the text that the template puts after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webpte.errors import ChatTemplateError
from webpte.text import ChatTemplate, Tokenizer

_MARK = "content"  # of a message whose end is looked for


@dataclass(frozen=True)
class Said:
    """An answer's place: the prompt before it as text, the tokens of both, where its own are."""

    prompt: str
    tokens: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class Turn:
    """A message; `said` if it is the model's own and stands as it was said."""

    role: str
    content: str
    said: Said | None = None

    @property
    def message(self) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True)
class Prompt:
    """Text and tokens; `retokenized` answers may be in other tokens than the model said them in."""

    text: str
    tokens: tuple[int, ...]
    retokenized: int


class PromptMaker:
    """A template with the tokenizer for what it renders."""

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, variables: Mapping[str, Any]
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._variables = dict(variables)

    def prompt(self, turns: Sequence[Turn]) -> Prompt:
        """What the model is to go on from: all of the conversation, and the answer's beginning."""
        text = self._template.render([turn.message for turn in turns], **self._variables)
        answers = [turn for turn in turns if turn.role == "assistant"]
        for count, turn in enumerate(reversed(answers)):
            rest = _after(turn, text)
            if rest is not None and turn.said is not None:
                tokens = (*turn.said.tokens, *self._tokenizer.encode(rest, special=False))
                return Prompt(text, tokens, count)
        whole = tuple(self._tokenizer.encode(text, special=False))
        return Prompt(text, whole, len(answers))

    def go_on(self, prompt: Prompt, begun: Turn | None) -> Prompt:
        """With the beginning of the answer, in the tokens that it was said in if it was."""
        if begun is None:
            return prompt
        if begun.said is not None:
            own = begun.said.tokens[begun.said.start :]
            return Prompt(prompt.text, (*prompt.tokens, *own), prompt.retokenized)
        tokens = self._tokenizer.encode(begun.content, special=False)
        return Prompt(prompt.text, (*prompt.tokens, *tokens), prompt.retokenized + 1)

    def turn_end(self) -> int | None:
        """The special token that the template puts behind an answer, if it does."""
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _MARK}]
        try:
            text = self._template.render(messages, add_generation_prompt=False, **self._variables)
        except ChatTemplateError:
            return None  # it wants other messages; the tokenizer's and the program's will do
        after = text.rpartition(_MARK)[2].lstrip()
        tokens = self._tokenizer.encode(after, special=False)
        plain, written = (self._tokenizer.decode(tokens[:1], special) for special in (False, True))
        return tokens[0] if written and not plain else None


def _after(turn: Turn, text: str) -> str | None:
    """What follows a turn in a text; None if it is not there as it was said.

    Templates may strip an answer, or have a space between the prompt and an answer of before.
    """
    if turn.said is None or not text.startswith(turn.said.prompt):
        return None
    rest = text[len(turn.said.prompt) :]
    for content, found in ((turn.content, rest), (turn.content.strip(), rest.lstrip())):
        if found.startswith(content):
            return found[len(content) :]
    return None
