"""Tokens that are guessed by the conversation."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, check_reference, dispatch_of, lowered
from support.cases.sampling.guess_tokens_cases import (
    GUESS_TOKENS,
    GUESS_TOKENS_CASES,
    guesses,
    oracle,
)
from support.graphs.graphs import wait
from webpte.errors import GraphError
from webpte.llm.proposals import PromptLookup


@pytest.mark.parametrize("case", GUESS_TOKENS_CASES, ids=str)
def test_reference(case: LiveCase) -> None:
    check_reference(case)


def test_cases_match_in_many_ways() -> None:
    """Some find a match of two, three and four tokens, some find none."""
    lengths = set()
    for case in GUESS_TOKENS_CASES:
        for tokens, sampled, position, history in case.steps:
            (guess,) = oracle(tokens[:1], sampled[:1], position, history)
            assert guess == sampled[0]
            context = [*history[: position[0] + 1], sampled[0]]
            pairs = ((context[e - n : e], n) for n in (4, 3, 2) for e in range(n, len(context)))
            lengths.add(next((n for gram, n in pairs if gram == context[-n:]), 0))
    assert lengths == {0, 2, 3, 4}


def test_the_host_guesses_the_same() -> None:
    for case in GUESS_TOKENS_CASES:
        for tokens, sampled, position, history in case.steps:
            start = np.full_like(tokens, -1)  # nothing was guessed before
            guess = oracle(start, sampled, position, history)
            context = [*history[: position[0] + 1].tolist(), int(sampled[0])][: len(history)]
            found = wait(PromptLookup().propose(context, len(tokens) - 1))
            repeated = [context[-1]] * (len(tokens) - 1)
            assert guess.tolist() == [context[-1], *(found or repeated)]


def test_one_dispatch() -> None:
    assert dispatch_of(guesses(8, [40], 64, 3)).grid == (1, 1, 1)


WORDS = np.zeros(3, np.int32)


@pytest.mark.parametrize(
    ("sampled", "position", "history", "message"),
    [
        (WORDS[:2], WORDS[:1], WORDS, "3 tokens, 2 sampled"),
        (WORDS, WORDS[:2], WORDS, "2 positions"),
        (WORDS, WORDS[:1], WORDS[:0], "a history of 0 tokens"),
        (WORDS, WORDS[:1], WORDS.astype(np.float32), "must be int32"),
    ],
)
def test_wrong_tensors(
    sampled: np.ndarray, position: np.ndarray, history: np.ndarray, message: str
) -> None:
    steps = [(WORDS, sampled, position, history)]
    with pytest.raises(GraphError, match=message):
        lowered(LiveCase(GUESS_TOKENS, steps, lambda *_: WORDS, out="int32"))
