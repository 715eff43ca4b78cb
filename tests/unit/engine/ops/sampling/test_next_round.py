"""The start of a speculative round."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, check_reference, dispatch_of, lowered
from support.cases.sampling.next_round_cases import NEXT_ROUND, NEXT_ROUND_CASES, next_round
from webpte.engine.ops.sampling.next_round import accepted_of
from webpte.errors import GraphError


@pytest.mark.parametrize("case", NEXT_ROUND_CASES, ids=str)
def test_reference(case: LiveCase) -> None:
    check_reference(case)


def test_one_dispatch() -> None:
    assert dispatch_of(next_round(8, 64, 131)).grid == (-(-9 * 131 // 64), 1, 1)


def test_guesses_count_up_to_the_first_wrong_one() -> None:
    tokens = np.array([4, 5, 6, 7], np.int32)
    assert accepted_of(tokens, np.array([5, 6, 7, 1], np.int32)) == 3
    assert accepted_of(tokens, np.array([5, 0, 7, 1], np.int32)) == 1
    assert accepted_of(tokens[:1], np.array([9], np.int32)) == 0


WORDS = np.zeros(3, np.int32)


@pytest.mark.parametrize(
    ("tokens", "sampled", "position", "table", "message"),
    [
        (WORDS, WORDS[:2], WORDS[:1], np.zeros((4, 5), np.int32), "3 tokens, 2 sampled"),
        (WORDS, WORDS, WORDS[:2], np.zeros((4, 5), np.int32), "2 positions"),
        (WORDS, WORDS, WORDS[:1], np.zeros((4, 1), np.int32), r"not \[4, 1\]"),
        (WORDS, WORDS, WORDS[:1], np.zeros((4, 5), np.float32), "must be int32"),
    ],
)
def test_wrong_tensors(
    tokens: np.ndarray, sampled: np.ndarray, position: np.ndarray, table: np.ndarray, message: str
) -> None:
    out = np.zeros((len(tokens) + 1, table.shape[1]), np.int32)
    steps = [(tokens, sampled, position, table, 0)]
    with pytest.raises(GraphError, match=message):
        lowered(LiveCase(NEXT_ROUND, steps, lambda *_: out, out="int32"))
