"""The tokens of a tokenizer in bytes, and which of them an automaton goes on with."""

from __future__ import annotations

import asyncio

import numpy as np

from webpte.llm.automaton import ByteAutomaton
from webpte.text import Tokenizer

Array = np.ndarray


class Vocabulary:
    """The bytes of all tokens, by place: the first of each, the second of each that has one, ...

    pieces  the bytes of each token, by number; None for special ones
    alone   bytes that are tokens, uint8
    """

    def __init__(self, pieces: list[bytes | None]) -> None:
        self.pieces = pieces
        known = [(number, piece) for number, piece in enumerate(pieces) if piece]
        known.sort(key=lambda pair: -len(pair[1]))  # those that end drop out at the end
        self._numbers = np.array([number for number, _ in known], np.int64)
        lengths = np.array([len(piece) for _, piece in known], np.int64)
        whole = np.frombuffer(b"".join(piece for _, piece in known), np.uint8)
        starts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.max(initial=0))
        counts = np.searchsorted(-lengths, -places, "left").tolist()  # those longer than a place
        self._columns = [whole[starts[:n] + place] for place, n in enumerate(counts)]
        self.alone = np.unique(whole[starts[lengths == 1]])

    @classmethod
    async def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        pieces = tokenizer.pieces()
        await asyncio.sleep(0)  # both take long where there are many tokens
        return cls(pieces)

    def going_on(self, automaton: ByteAutomaton, state: int) -> tuple[Array, Array]:
        """The tokens that lead from a state to others that are alive, and those."""
        states = np.full(self._numbers.size, state, np.int32)
        left = np.arange(states.size)
        for column in self._columns:
            longer, ended = np.split(left, [np.searchsorted(left, column.size)])
            found = automaton.table[states[longer], automaton.kinds[column[longer]]]
            states[longer] = found
            left = np.concatenate([longer[found != automaton.dead], ended])
        order = left[np.argsort(self._numbers[left])]
        return self._numbers[order], states[order]
