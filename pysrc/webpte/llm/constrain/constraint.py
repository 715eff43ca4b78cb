"""Constraints on an answer: the tokens that may follow the generated tokens.

A constraint depends on the tokens alone and stores nothing about an answer. So an answer can be
cancelled or retried after an error, and several answers can share a constraint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from webpte.errors import InputError, TextError
from webpte.llm.text import Tokenizer


@dataclass(frozen=True, eq=False)
class Allowed:
    """Tokens that may come next; `may_end` says whether the answer may end here instead."""

    tokens: np.ndarray  # int64
    may_end: bool

    @property
    def is_end(self) -> bool:
        return self.may_end and not self.tokens.size


class Constraint(Protocol):
    """The restriction that a Generation applies to each token."""

    def after(self, generated: Sequence[int]) -> Allowed:
        """Return the tokens that may follow an answer's tokens, all of which were allowed."""


class Continued:
    """The rest of an answer that has begun, for the constraint of the whole answer."""

    def __init__(self, constraint: Constraint, begun: Sequence[int]) -> None:
        """`begun` are the first tokens; raises InputError if the constraint forbids them."""
        for count, token in enumerate(begun):
            if token not in constraint.after(begun[:count]).tokens:
                raise InputError("the beginning of the answer does not fit its constraint")
        self._constraint, self._begun = constraint, tuple(begun)

    def after(self, generated: Sequence[int]) -> Allowed:
        return self._constraint.after([*self._begun, *generated])


class OneOf:
    """A choice among several answers, each given in tokens."""

    def __init__(self, answers: Sequence[Sequence[int]]) -> None:
        if not answers or not all(answers):
            raise InputError("choices are one or more answers, none of which is empty")
        # For each prefix of an answer, the tokens that may follow it; None is its end.
        self._next: dict[tuple[int, ...], set[int | None]] = {}
        for answer in answers:
            whole = tuple(answer)
            if not all(isinstance(token, int | np.integer) and token >= 0 for token in whole):
                raise InputError(f"tokens are integers from 0 on, not {answer!r}")
            for count, token in enumerate((*whole, None)):
                self._next.setdefault(whole[:count], set()).add(token)

    @classmethod
    def of_texts(cls, choices: Sequence[str], tokenizer: Tokenizer) -> OneOf:
        """Encode the choices with a tokenizer."""
        if isinstance(choices, str) or not all(isinstance(text, str) for text in choices):
            raise InputError(f"choices is a list of texts, not {choices!r}")
        answers = [tokenizer.encode(text, special=False) for text in choices]
        for text, tokens in zip(choices, answers, strict=True):
            if tokenizer.decode(tokens) != text:
                raise TextError(f"the tokenizer has no tokens that are {text!r} alone")
        return cls(answers)

    def after(self, generated: Sequence[int]) -> Allowed:
        following = self._next[tuple(generated)]
        tokens = sorted(token for token in following if token is not None)
        return Allowed(np.array(tokens, np.int64), None in following)
