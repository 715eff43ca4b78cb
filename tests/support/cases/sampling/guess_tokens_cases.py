"""Cases of tokens guessed by the conversation, and an oracle that reads it token by token."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase

GUESS_TOKENS = "webpte.guess_tokens.default"


def oracle(tokens: Array, sampled: Array, position: Array, history: Array) -> Array:
    right = 0
    while right + 1 < len(tokens) and tokens[right + 1] == sampled[right]:
        right += 1
    before = int(position[0]) + 1
    context = [*history[:before].tolist(), *sampled[: right + 1].tolist()][: len(history)]
    found = [context[-1]]
    start = _place_after(context)
    while len(found) < len(tokens):
        found.append(context[-1] if start is None else [*context, *found[1:]][start])
        start = None if start is None else start + 1
    return np.array(found, np.int32)


def _place_after(context: list[int]) -> int | None:
    """Return the place after the latest of the longest matches of the last tokens."""
    for length in (4, 3, 2):
        for end in range(len(context) - 1, length - 1, -1):
            if context[end - length : end] == context[-length:]:
                return end
    return None


def guesses(count: int, lengths: list[int], room: int, words: int, label: str = "") -> LiveCase:
    """One call after each number of tokens of a conversation that has so many different words."""
    random = np.random.default_rng(count * 1000 + room + words)
    steps = []
    for number, length in enumerate(lengths):
        right = number % count
        history = random.integers(0, words, room).astype(np.int32)
        tokens = random.integers(0, words, count).astype(np.int32)
        sampled = np.array([*tokens[1:], words + 1], np.int32)
        sampled[right] = history[: max(1, length)][-1] if right < count - 1 else sampled[right]
        if right < count - 1 and sampled[right] == tokens[right + 1]:
            tokens[right + 1] = words  # a wrong guess
        steps.append((tokens, sampled, np.array([length - 1], np.int32), history))
    return LiveCase(GUESS_TOKENS, steps, oracle, out="int32", label=label)


def periods(count: int, period: int, room: int) -> LiveCase:
    """A conversation that repeats itself: a copy goes on beyond its end."""
    history = np.resize(np.arange(period), room).astype(np.int32)
    steps = []
    for length in (2 * period + 1, room - 1):
        tokens = np.full(count, -1, np.int32)
        sampled = np.full(count, history[length], np.int32)
        steps.append((tokens, sampled, np.array([length - 1], np.int32), history))
    return LiveCase(GUESS_TOKENS, steps, oracle, out="int32", label="a period")


GUESS_TOKENS_CASES: list[LiveCase] = [
    guesses(1, [0, 1, 5], 8, 2),
    guesses(2, [1, 2, 3, 4, 5, 6], 9, 2),
    guesses(8, [3, 17, 30, 31, 40, 41, 42, 43], 64, 3),
    guesses(8, [20, 33], 64, 1000, label="no match"),
    guesses(5, [59, 60, 61, 62, 63, 63], 64, 4, label="beyond the room"),
    guesses(8, [4990, 2000, 257, 256], 5003, 40, label="long"),
    periods(8, 3, 40),
    periods(8, 1, 12),
    periods(4, 300, 1000),
]
