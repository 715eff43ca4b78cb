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

STATES_KEPT = 256  # states whose allowed tokens are cached


class Matching:
    """Constrains answers to those that an expression matches as a whole. Built by `Grammars`."""

    def __init__(self, automaton: ByteAutomaton, vocabulary: Vocabulary, ends: np.ndarray) -> None:
        """`ends` are the states from which tokens are known to lead to an accepting one."""
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._allowed: dict[int, Allowed] = {}
        self._ends = ends
        self._stuck = np.zeros_like(ends)  # states from which they are known not to

    def after(self, generated: Sequence[int]) -> Allowed:
        state = self._automaton.start
        for token in generated:
            state = self._automaton.after(state, self._vocabulary.pieces[token] or b"")
        if state not in self._allowed:
            if len(self._allowed) >= STATES_KEPT:
                self._allowed.clear()
            tokens, targets = self._vocabulary.next_tokens(self._automaton, state)
            for target in np.nonzero(np.bincount(targets))[0].tolist():
                self._can_end(target)
            kept = tokens[~self._stuck[targets]]
            self._allowed[state] = Allowed(kept, bool(self._automaton.accepts[state]))
        return self._allowed[state]

    def _can_end(self, state: int) -> bool:
        """Return whether tokens lead from a state to an accepting one, and remember it."""
        seen, waiting = {state}, [state]
        for one in waiting:
            if self._ends[one]:
                self._ends[state] = True
                return True
            _, targets = self._vocabulary.next_tokens(self._automaton, one)
            new = set(np.nonzero(np.bincount(targets[~self._stuck[targets]]))[0].tolist()) - seen
            seen |= new
            waiting += sorted(new, key=lambda target: not self._ends[target])
        self._stuck[waiting] = True
        return False


async def compile_matching(expression: Expression, vocabulary: Vocabulary, name: str) -> Matching:
    """Compile an expression, which errors call by `name`.

    Raises InputError if it is too large or matches nothing, TextError if the tokenizer has no
    tokens for it.
    """
    automaton = await ByteAutomaton.of(expression, name)
    # Some bytes may have no tokens; those that are tokens by themselves do.
    matching = Matching(automaton, vocabulary, await automaton.ended_by(vocabulary.alone))
    if not matching._can_end(automaton.start):
        raise TextError(f"{name}: the tokenizer has no tokens for any text that matches")
    return matching


class Grammars:
    """Builds constraints for the tokens of one tokenizer. Loaded by `load`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @classmethod
    async def load(cls, tokenizer: Tokenizer) -> Grammars:
        return cls(await Vocabulary.of(tokenizer.pieces()))

    async def regex(self, pattern: str) -> Matching:
        """Constrain answers to a pattern of Python's `re`, which the whole answer must match.

        Raises InputError if an automaton cannot match it (regex.py), or would be too large.
        """
        name = f"the regex {pattern!r}"
        return await compile_matching(expression_of(pattern), self._vocabulary, name)

    async def schema(self, schema: Mapping[str, Any]) -> Matching:
        """Constrain answers to JSON of a schema; json_schema.py lists the supported keywords."""
        return await compile_matching(json_of(schema), self._vocabulary, "the schema")


class LazyGrammars:
    """Builds constraints for one tokenizer, whose vocabulary is read for the first of them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._vocabulary: Vocabulary | None = None

    async def matching(self, expression: Expression, name: str) -> Matching:
        """Constrain answers to an expression; errors call it by `name`."""
        if self._vocabulary is None:
            self._vocabulary = await Vocabulary.of(self._tokenizer.pieces())
        return await compile_matching(expression, self._vocabulary, name)
