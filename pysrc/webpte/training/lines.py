"""Lines of a user as examples for a language model, and batches of examples.

A line is a text, or a pair of a question and its answer. Of a pair only the answer is learned; the
tokenizer's chat template formats question and answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.errors import ChatTemplateError, InputError
from webpte.llm.text import ChatTemplate, Tokenizer

Line = str | tuple[str, str]
UNCOUNTED = -1  # a target that is not learned


@dataclass(frozen=True)
class LineTokens:
    """The tokens of a line, and how many of them are given rather than learned."""

    tokens: tuple[int, ...]
    given: int

    @property
    def learned(self) -> int:
        """Number of tokens to learn."""
        return len(self.tokens) - max(self.given, 1)


def read_lines(text: str, between: str = "=>") -> list[Line]:
    """Split a text into lines; a line with `between` is a question and its answer."""
    found: list[Line] = []
    for line in text.splitlines():
        question, mark, answer = (part.strip() for part in line.partition(between))
        if mark and question and answer:
            found.append((question, answer))
        elif line.strip():
            found.append(line.strip())
    return found


def examples_of(
    lines: Sequence[Line],
    tokenizer: Tokenizer,
    length: int,
    template: ChatTemplate | None = None,
) -> list[LineTokens]:
    """Return the examples of lines: rows of up to `length` tokens and the token after them.

    A longer text is cut into several examples, each of which begins with the last token of the
    example before it; a question that leaves no room for its answer is an InputError.
    """
    if isinstance(lines, str):
        raise InputError("lines are a list of texts, not one text: split it, as read_lines does")
    template, found = template or tokenizer.template, list[LineTokens]()
    for number, line in enumerate(lines, 1):
        if isinstance(line, str):
            whole = _text(line, tokenizer)
        else:
            whole = _pair(line, tokenizer, template, number)
        if whole.given > length:
            raise InputError(
                f"line {number}: its question takes {whole.given} tokens, and a row of this "
                f"program has {length}; shorten it"
            )
        found += [one for one in _pieces(whole, length) if one.learned > 0]
    if not found:
        raise InputError("there is nothing to learn: give at least one line of two tokens")
    return found


def _text(line: str, tokenizer: Tokenizer) -> LineTokens:
    tokens = tokenizer.encode(line)
    begin, end = (_special(tokenizer, name) for name in ("bos_token", "eos_token"))
    if begin is not None and tokens[:1] != [begin]:
        tokens = [begin, *tokens]
    if end is not None and tokens[-1:] != [end]:
        tokens = [*tokens, end]
    return LineTokens(tuple(tokens), 1)


def _pair(
    line: Sequence[str], tokenizer: Tokenizer, template: ChatTemplate | None, number: int
) -> LineTokens:
    if len(line) != 2 or not all(isinstance(part, str) for part in line):
        raise InputError(f"line {number} is neither a text nor a question with its answer")
    if template is None:
        raise ChatTemplateError(
            f"line {number} is a question with its answer, but the tokenizer has no chat template "
            "to write them: give plain texts, or load it with its tokenizer_config.json"
        )
    asked = {"role": "user", "content": line[0]}
    said = {"role": "assistant", "content": line[1]}
    before = template.render([asked])
    text = template.render([asked, said], add_generation_prompt=False)
    if not text.startswith(before):  # the template writes answers in another way than prompts
        before = text[: text.rfind(line[1].strip())]
    prompt = tokenizer.encode(before, special=False)
    answer = tokenizer.encode(text[len(before) :], special=False)
    return LineTokens((*prompt, *answer), len(prompt))


def _special(tokenizer: Tokenizer, name: str) -> int | None:
    text = tokenizer.special.get(name)
    return tokenizer.id_of(text) if text else None


def _pieces(example: LineTokens, length: int) -> Iterator[LineTokens]:
    for start in range(0, max(1, len(example.tokens) - 1), length):
        tokens = example.tokens[start : start + length + 1]
        yield LineTokens(tokens, max(1, example.given - start))


class Batches:
    """Endless batches: every example once in random order, then again in another order.

    packed  several short examples share a row, which saves steps, but a token then sees earlier
    examples in its row
    """

    def __init__(
        self,
        examples: Sequence[LineTokens],
        rows: int,
        length: int,
        rng: np.random.Generator,
        packed: bool = False,
    ) -> None:
        self._examples = examples
        self._rows, self._length = rows, length
        self._rng = rng
        self._packed = packed
        self._waiting: list[int] = []

    def next(self) -> tuple[np.ndarray, np.ndarray]:
        """Return tokens (rows, length) and targets of the same shape."""
        tokens = np.zeros((self._rows, self._length), np.int64)
        targets = np.full((self._rows, self._length), UNCOUNTED, np.int32)
        for row in range(self._rows):
            filled = 0
            while filled == 0 or (self._packed and self._fits(filled)):
                one = self._examples[self._draw()]
                ids = np.array(one.tokens)
                end = filled + len(ids) - 1
                tokens[row, filled:end] = ids[:-1]
                targets[row, filled + one.given - 1 : end] = ids[one.given :]
                filled = end
        return tokens, targets

    def _draw(self) -> int:
        if not self._waiting:
            self._waiting = self._rng.permutation(len(self._examples)).tolist()
        return self._waiting.pop()

    def _fits(self, filled: int) -> bool:
        """Return whether the next example has room in a row; draw a new order after the last."""
        if not self._waiting:
            self._waiting = self._rng.permutation(len(self._examples)).tolist()
        return filled + len(self._examples[self._waiting[-1]].tokens) - 1 <= self._length
