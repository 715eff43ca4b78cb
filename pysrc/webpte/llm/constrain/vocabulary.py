"""The tokens of a tokenizer in bytes, and the tokens that an automaton accepts next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from webpte.llm.constrain.automaton import ByteAutomaton

Array = np.ndarray

AT_ONCE = 8192  # tokens between two turns of the event loop


class Vocabulary:
    """The bytes of all tokens in columns: the first byte of each token, the second byte, ...

    Built by `of`.

    pieces  the bytes of each token, by number; None for special tokens
    alone   bytes that are tokens by themselves, uint8
    """

    def __init__(
        self, pieces: Sequence[bytes | None], numbers: Array, lengths: Array, data: Array
    ) -> None:
        """`numbers` are the tokens that have bytes, the longest first; `data` are their bytes."""
        self.pieces = pieces
        self._numbers = numbers
        starts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.max(initial=0))
        counts = np.searchsorted(-lengths, -places, "left").tolist()  # tokens longer than a place
        self._columns = [data[starts[:n] + place] for place, n in enumerate(counts)]
        self.alone = np.unique(data[starts[lengths == 1]])

    @classmethod
    async def of(cls, pieces: Sequence[bytes | None]) -> Vocabulary:
        lengths = np.zeros(len(pieces), np.int64)
        for start in range(0, len(pieces), AT_ONCE):
            part = pieces[start : start + AT_ONCE]
            lengths[start : start + AT_ONCE] = [len(piece or b"") for piece in part]
            await asyncio.sleep(0)
        order = np.argsort(-lengths, kind="stable")  # so that shorter tokens drop out at the end
        numbers = order[: np.count_nonzero(lengths)]
        parts: list[bytes] = []
        for start in range(0, numbers.size, AT_ONCE):
            part = numbers[start : start + AT_ONCE].tolist()
            parts.append(b"".join(pieces[number] or b"" for number in part))
            await asyncio.sleep(0)
        data = np.frombuffer(b"".join(parts), np.uint8)
        return cls(pieces, numbers, lengths[numbers], data)

    def next_tokens(self, automaton: ByteAutomaton, state: int) -> tuple[Array, Array]:
        """Return the tokens that lead from a state to living states, and these states."""
        states = np.full(self._numbers.size, state, np.int32)
        left = np.arange(states.size)
        for column in self._columns:
            longer, ended = np.split(left, [np.searchsorted(left, column.size)])
            found = automaton.table[states[longer], automaton.kinds[column[longer]]]
            states[longer] = found
            left = np.concatenate([longer[found != automaton.dead], ended])
        targets = np.full(len(self.pieces), automaton.dead, np.int32)
        targets[self._numbers[left]] = states[left]
        tokens = np.nonzero(targets != automaton.dead)[0]
        return tokens, targets[tokens]
