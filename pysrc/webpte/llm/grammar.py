"""Answers that match a regular expression, or are JSON of a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.llm.automaton import ByteAutomaton
from webpte.llm.constraint import Allowed
from webpte.llm.json_schema import regex_of
from webpte.runtime.libraries import python_package
from webpte.text import Tokenizer

Array = np.ndarray

STATES_KEPT = 256  # for so many states it is remembered which tokens they allow


class Vocabulary:
    """The bytes of all tokens, by place: the first of each, the second of each that has one, ..."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.pieces = tokenizer.pieces()
        known = [(number, piece) for number, piece in enumerate(self.pieces) if piece]
        known.sort(key=lambda pair: -len(pair[1]))  # those that end drop out at the end
        self._numbers = np.array([number for number, _ in known], np.int64)
        lengths = np.array([len(piece) for _, piece in known], np.int64)
        whole = np.frombuffer(b"".join(piece for _, piece in known), np.uint8)
        starts = np.cumsum(lengths) - lengths
        counts = [int((lengths > place).sum()) for place in range(lengths.max(initial=0))]
        self._columns = [whole[starts[:n] + place] for place, n in enumerate(counts)]

    def going_on(self, automaton: ByteAutomaton, state: int) -> Array:
        """The tokens that lead from a state to one that is alive."""
        states = np.full(self._numbers.size, state, np.int32)
        for column in self._columns:
            states[: column.size] = automaton.table[states[: column.size], column]
        return np.sort(self._numbers[states != automaton.dead])


class Matching:
    """Answers that a regular expression matches, from their beginning to their end."""

    def __init__(self, automaton: ByteAutomaton, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._allowed: dict[int, Allowed] = {}

    def after(self, said: Sequence[int]) -> Allowed:
        state, table = self._automaton.start, self._automaton.table
        for token in said:
            for byte in self._vocabulary.pieces[token] or b"":
                state = int(table[state, byte])
        if state not in self._allowed:
            if len(self._allowed) >= STATES_KEPT:
                self._allowed.clear()
            tokens = self._vocabulary.going_on(self._automaton, state)
            self._allowed[state] = Allowed(tokens, bool(self._automaton.accepts[state]))
        return self._allowed[state]


class Grammars:
    """Makes constraints for answers in the tokens of one tokenizer. Made by `load`."""

    def __init__(self, vocabulary: Vocabulary, interegular: ModuleType) -> None:
        self._vocabulary = vocabulary
        self._interegular = interegular

    @classmethod
    async def load(cls, tokenizer: Tokenizer) -> Grammars:
        return cls(Vocabulary(tokenizer), await python_package("interegular", "text"))

    def regex(self, pattern: str) -> Matching:
        """As Python's `re` writes it, without references and looking back, and without ^ and $:
        all of an answer must match."""
        try:
            machine = self._interegular.parse_pattern(pattern).to_fsm()
        except Exception as error:  # it has no base class for its own
            reason = f"{type(error).__name__}: {error}".strip(": ")
            raise InputError(
                f"interegular does not take the regex {pattern!r}: {reason}"
            ) from error
        automaton = ByteAutomaton.of(machine, self._interegular.fsm.anything_else)
        if automaton.start == automaton.dead or not automaton.accepts.any():
            raise InputError(f"the regex {pattern!r} matches nothing")
        return Matching(automaton, self._vocabulary)

    def schema(self, schema: Mapping[str, Any]) -> Matching:
        """JSON of a JSON schema; json_schema.py says what of them is known."""
        return self.regex(regex_of(schema))
