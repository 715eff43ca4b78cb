"""Automata of patterns and schemas: tests whether texts are accepted, and random texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.graphs.graphs import wait
from webpte.llm.constrain.automaton import ByteAutomaton
from webpte.llm.constrain.json_schema import json_of
from webpte.llm.constrain.regex import expression_of


def of_schema(schema: Any) -> ByteAutomaton:
    return wait(ByteAutomaton.of(json_of(schema), "the schema"))


def of_regex(pattern: str) -> ByteAutomaton:
    return wait(ByteAutomaton.of(expression_of(pattern), "the regex"))


def accepts(automaton: ByteAutomaton, text: str) -> bool:
    return bool(automaton.accepts[automaton.after(automaton.start, text.encode())])


class Sampler:
    """A sampler of texts that an automaton accepts: random, then the shortest way to an end."""

    def __init__(self, automaton: ByteAutomaton) -> None:
        self._automaton = automaton
        rows = automaton.table[:, automaton.kinds]  # (states, 256)
        self._ways = [np.nonzero(row != automaton.dead)[0].tolist() for row in rows]
        self._rows = rows.tolist()
        self._far = [0 if accepted else 1 << 30 for accepted in automaton.accepts.tolist()]
        changed = True
        while changed:
            changed = False
            for state in reversed(range(len(self._rows))):  # ends mostly come last
                row = self._rows[state]
                near = min((self._far[row[b]] + 1 for b in self._ways[state]), default=1 << 30)
                if near < self._far[state]:
                    self._far[state], changed = near, True

    def draw(self, rng: np.random.Generator, most: int = 60) -> str:
        state, data = self._automaton.start, bytearray()
        automaton = self._automaton
        while True:
            if automaton.accepts[state] and (len(data) >= most or rng.random() < 0.2):
                return data.decode()
            ways = self._ways[state]
            if not ways:
                return data.decode()
            if len(data) >= most:
                best = min(self._far[self._rows[state][b]] for b in ways)
                ways = [b for b in ways if self._far[self._rows[state][b]] == best]
            # JSON punctuation is as likely as all letters together.
            marks = [b for b in ways if chr(b) in '"\\,]}u0d']
            pool = marks if marks and rng.random() < 0.3 else ways
            data.append(int(pool[rng.integers(len(pool))]))
            state = self._rows[state][data[-1]]
