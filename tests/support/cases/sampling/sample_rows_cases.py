"""Cases of a token from each row of the logits, with an oracle that takes row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase
from support.cases.sampling.sample_cases import (
    FEW,
    logits_of,
    mask_words,
    oracle_token,
    seed_of,
    settings,
)

SAMPLE_ROWS = "webpte.sample_rows.default"
HISTORY = np.random.default_rng(3).integers(-1, 331, (4, 20, 1, 1)).astype(np.int32)


def oracle(
    logits: Array, history: Any, places: Array, given: Array, seed: Array, *rest: Any
) -> Array:
    with_top_k, with_top_p, penalized, *mask = rest
    tokens = []
    for row, own in enumerate(logits.reshape(-1, logits.shape[-1])):
        position, slot = int(places[row, 0]), int(places[row, 1])
        before = () if history is None else history[slot].reshape(-1)
        flags = (with_top_k, with_top_p, penalized, *(words[row] for words in mask))
        tokens.append(oracle_token(own[None], before, position, given[row], seed[row], *flags)[0])
    return np.array(tokens)


def sample_rows(
    rows: Sequence[dict[str, Any]], length: int = 331, label: str = "", masked: bool = False
) -> LiveCase:
    """One call with as many rows as settings, and one with the first of them alone."""
    flags = tuple(any(name in row for row in rows) for name in ("top_k", "top_p", "penalty"))
    logits = np.concatenate([logits_of(length, n) for n in range(len(rows))])
    places = np.zeros((len(rows), 4), np.int32)
    places[:, 0] = [3 + 5 * n % 17 for n in range(len(rows))]
    places[:, 1] = [(2 * n + 1) % len(HISTORY) for n in range(len(rows))]
    given = np.stack([settings(**row) for row in rows])
    seed = np.stack([seed_of(77 + n) for n in range(len(rows))])
    history = HISTORY if flags[2] else None
    each = range(len(rows) if masked else 0)
    mask = [np.stack([mask_words(FEW[n % 3 :], length) for n in each])] if masked else []
    steps = [
        (logits[:n], history, places[:n], given[:n], seed[:n], *flags, *(m[:n] for m in mask))
        for n in (len(rows), 1)
    ]
    return LiveCase(SAMPLE_ROWS, steps, oracle, out="int32", exact=False, label=label)


GREEDY: dict[str, Any] = {"temperature": 0.0}
MIXED: list[dict[str, Any]] = [
    GREEDY,
    {},
    {"temperature": 0.7, "top_k": 5},
    {"top_p": 0.6},
    {"top_k": 40, "top_p": 0.9, "min_p": 0.02},
    {"penalty": 1.4},
    {"penalty": 30.0, "temperature": 0.0},
]

SAMPLE_ROWS_CASES = [
    sample_rows([{}], label="one"),
    sample_rows([{}, GREEDY, {"min_p": 0.1}], label="three"),
    sample_rows(MIXED[:5], label="no penalty"),
    sample_rows(MIXED, label="all"),
    sample_rows(MIXED, 5003, label="long"),
    sample_rows(MIXED, label="allowed", masked=True),
    sample_rows(MIXED[:4], 2, label="two tokens"),
]
