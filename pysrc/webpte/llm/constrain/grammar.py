"""Answers that match a regular expression, or are JSON of a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webpte.errors import TextError
from webpte.llm.constrain.automaton import ByteAutomaton
from webpte.llm.constrain.constraint import Allowed
from webpte.llm.constrain.expression import Expression
from webpte.llm.constrain.json_schema import json_of
from webpte.llm.constrain.regex import expression_of
from webpte.llm.constrain.vocabulary import Vocabulary
from webpte.text import Tokenizer

STATES_KEPT = 256  # for so many states it is remembered which tokens they allow


class Matching:
    """Answers that an expression matches, from their beginning to their end. Made by `of`."""

    def __init__(self, automaton: ByteAutomaton, vocabulary: Vocabulary, ends: np.ndarray) -> None:
        """`ends` says from which states it is known that tokens lead to one that accepts."""
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._allowed: dict[int, Allowed] = {}
        self._ends = ends
        self._stuck = np.zeros_like(ends)  # and from which that they do not

    @classmethod
    async def of(cls, expression: Expression, vocabulary: Vocabulary, name: str) -> Matching:
        """`name` is what errors call the expression. Raises InputError if it is too large or
        matches nothing, TextError if the tokenizer has no tokens for it."""
        automaton = await ByteAutomaton.of(expression, name)
        # A way in bytes may have no tokens. Where bytes are tokens themselves, there are.
        matching = cls(automaton, vocabulary, await automaton.ended_by(vocabulary.alone))
        if not matching._can_end(automaton.start):
            raise TextError(f"{name}: the tokenizer has no tokens for any text that matches")
        return matching

    def after(self, said: Sequence[int]) -> Allowed:
        state = self._automaton.start
        for token in said:
            state = self._automaton.after(state, self._vocabulary.pieces[token] or b"")
        if state not in self._allowed:
            if len(self._allowed) >= STATES_KEPT:
                self._allowed.clear()
            tokens, targets = self._vocabulary.going_on(self._automaton, state)
            for target in np.nonzero(np.bincount(targets))[0].tolist():
                self._can_end(target)
            kept = tokens[~self._stuck[targets]]
            self._allowed[state] = Allowed(kept, bool(self._automaton.accepts[state]))
        return self._allowed[state]

    def _can_end(self, state: int) -> bool:
        """Whether tokens lead from a state to one that accepts; it is remembered."""
        seen, waiting = {state}, [state]
        for one in waiting:
            if self._ends[one]:
                self._ends[state] = True
                return True
            _, targets = self._vocabulary.going_on(self._automaton, one)
            new = set(np.nonzero(np.bincount(targets[~self._stuck[targets]]))[0].tolist()) - seen
            seen |= new
            waiting += sorted(new, key=lambda target: not self._ends[target])
        self._stuck[waiting] = True
        return False


class Grammars:
    """Makes constraints for answers in the tokens of one tokenizer. Made by `load`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @classmethod
    async def load(cls, tokenizer: Tokenizer) -> Grammars:
        return cls(await Vocabulary.of(tokenizer.pieces()))

    async def regex(self, pattern: str) -> Matching:
        """Constrain answers to a pattern as Python's `re` writes it, which all of one must match.

        Raises InputError if it needs more than an automaton can do (regex.py), or too large a one.
        """
        name = f"the regex {pattern!r}"
        return await Matching.of(expression_of(pattern), self._vocabulary, name)

    async def schema(self, schema: Mapping[str, Any]) -> Matching:
        """Constrain answers to JSON of a schema; json_schema.py says what of schemas is known."""
        return await Matching.of(json_of(schema), self._vocabulary, "the schema")
