"""Answers that match a regular expression, or are JSON of a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webpte.errors import TextError
from webpte.llm.automaton import ByteAutomaton
from webpte.llm.constraint import Allowed
from webpte.llm.expression import Expression
from webpte.llm.json_schema import json_of
from webpte.llm.regex import expression_of
from webpte.llm.vocabulary import Vocabulary
from webpte.text import Tokenizer

STATES_KEPT = 256  # for so many states it is remembered which tokens they allow


class Matching:
    """Answers that a regular expression matches, from their beginning to their end."""

    def __init__(self, automaton: ByteAutomaton, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._allowed: dict[int, Allowed] = {}
        # A way in bytes may have no tokens. Where bytes are tokens themselves, there are.
        self._ends = automaton.ended_by(vocabulary.alone)
        self._stuck = np.zeros_like(self._ends)
        if not self._can_end(automaton.start):
            raise TextError("the tokenizer has no tokens for any text that matches")

    def after(self, said: Sequence[int]) -> Allowed:
        state = self._automaton.start
        for token in said:
            state = self._automaton.after(state, self._vocabulary.pieces[token] or b"")
        if state not in self._allowed:
            if len(self._allowed) >= STATES_KEPT:
                self._allowed.clear()
            tokens, targets = self._vocabulary.going_on(self._automaton, state)
            for target in np.unique(targets).tolist():
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
            new = set(np.unique(targets[~self._stuck[targets]]).tolist()) - seen
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
        return cls(await Vocabulary.of(tokenizer))

    async def regex(self, pattern: str) -> Matching:
        """As Python's `re` writes it; all of an answer must match. regex.py says what is refused."""
        return await self.matching(expression_of(pattern), f"the regex {pattern!r}")

    async def schema(self, schema: Mapping[str, Any]) -> Matching:
        """JSON of a JSON schema; json_schema.py says what of them is known."""
        return await self.matching(json_of(schema), "the schema")

    async def matching(self, expression: Expression, name: str) -> Matching:
        """What an expression matches; `name` is what errors call it."""
        return Matching(await ByteAutomaton.of(expression, name), self._vocabulary)
