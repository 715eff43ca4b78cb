"""Whisper's timestamps: where they may stand, and the segments between them."""

from __future__ import annotations

import numpy as np
import pytest

from webpte.tasks.sound.speech.timestamps import TimedTokens, TimestampRule, split

FIRST, END, LAST = 10, 6, 20
RULE = TimestampRule(2, FIRST, END, 3)


def allowed(*generated: int, likely: dict[int, float] | None = None) -> list[int]:
    """Return the tokens that may follow; `likely` are logits, 0 for all others."""
    logits = np.zeros(LAST + 1, np.float32)
    for token, logit in (likely or {4: 9.0, 6: 9.0}).items():
        logits[token] = logit
    return np.flatnonzero(np.isfinite(RULE([1, 2, *generated], logits))).tolist()


TEXT = [0, 1, 2, 3, 4, 5, 6, 7, 8]  # with the end and special tokens, but not "no timestamps"


@pytest.mark.parametrize(
    ("generated", "expected"),
    [
        ((), [10, 11, 12, 13]),  # begins with a time that is not late
        ((11,), TEXT),
        ((11, 3), [*TEXT, *range(12, LAST + 1)]),
        ((11, 3, 14), [6, 7, 8, *range(14, LAST + 1)]),  # its pair, or the end
        ((11, 3, 14, 14), TEXT),
        ((11, 3, 14, 14, 5), [*TEXT, *range(15, LAST + 1)]),
    ],
    ids=str,
)
def test_times_come_in_pairs_and_in_order(generated: tuple[int, ...], expected: list[int]) -> None:
    assert allowed(*generated) == expected


def test_times_that_are_likely_together_come() -> None:
    times = dict.fromkeys(range(FIRST, LAST + 1), 1.0)
    assert allowed(11, 3, likely={4: 2.0, **times}) == list(range(12, LAST + 1))
    assert allowed(11, 3, likely={4: 4.0, **times}) == [*TEXT, *range(12, LAST + 1)]


@pytest.mark.parametrize(
    ("tokens", "spans", "understood"),
    [
        ([10, 1, 2, 14, 14, 3, 17, 17, 4], [(0, 4, (10, 1, 2, 14)), (4, 7, (14, 3, 17))], 7),
        ([10, 1, 14, 14, 3, 17], [(0, 4, (10, 1, 14)), (4, 7, (14, 3, 17))], 50),
        ([10, 1, 14], [(0, 4, (10, 1, 14))], 50),
        ([10, 1], [(0, 50, (10, 1))], 50),
        ([1, 2], [(0, 50, (1, 2))], 50),
        ([], [(0, 50, ())], 50),
    ],
    ids=str,
)
def test_segments(
    tokens: list[int], spans: list[tuple[int, int, tuple[int, ...]]], understood: int
) -> None:
    assert split(tokens, FIRST, 50) == ([TimedTokens(*span) for span in spans], understood)
