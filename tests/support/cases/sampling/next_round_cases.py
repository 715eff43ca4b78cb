"""Cases of the start of a speculative round, and an oracle that counts token by token."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, Sym

NEXT_ROUND = "webpte.next_round.default"


def oracle(tokens: Array, sampled: Array, position: Array, table: Array, first: int) -> Array:
    right = 0
    while right + 1 < len(tokens) and tokens[right + 1] == sampled[right]:
        right += 1
    start = int(position[0]) + right + 1
    rows = [table[min(max(start - first + i, 0), len(table) - 1)] for i in range(len(tokens))]
    last = np.zeros(table.shape[1], table.dtype)
    last[:2] = start, sampled[right]
    return np.stack([*rows, last])


def next_round(count: int, positions: int, words: int, label: str = "") -> LiveCase:
    """One call for each number of guesses that are right, each at another position."""
    random = np.random.default_rng(count * 1000 + positions)
    steps = []
    for right in range(count):
        tokens, sampled = random.integers(0, 99, (2, count)).astype(np.int32)
        sampled[:-1] = tokens[1:]
        if right < count - 1:
            sampled[right] = 99
        table = random.integers(-(2**31), 2**31, (positions, words)).astype(np.int32)
        first = Sym(7 + right)
        steps.append((tokens, sampled, np.array([5 + 3 * right], np.int32), table, first))

    def expect(tokens: Array, sampled: Array, position: Array, table: Array, first: int) -> Array:
        return oracle(tokens, sampled, position, table, int(first))

    return LiveCase(NEXT_ROUND, steps, expect, out="int32", label=label)


NEXT_ROUND_CASES: list[LiveCase] = [
    next_round(1, 1, 2),
    next_round(2, 5, 3),
    next_round(3, 17, 67),
    next_round(8, 64, 131),
    next_round(8, 3, 5, label="beyond the table"),
]
