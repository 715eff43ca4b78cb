"""Cases of top logprobs, and an oracle in float64 that sorts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase
from support.cases.sampling.sample_cases import INF, LARGEST, NAN, SPECIAL, logits_of, plain_numbers
from webpte.engine.ops.sampling.top_logprobs import top_logprobs_words

TOP_LOGPROBS = "webpte.top_logprobs.default"


def oracle(logits: Array, token: int, count: int) -> tuple[float, list[int], list[float]]:
    """The logarithm of a token's probability, and the likeliest tokens with theirs."""
    row = plain_numbers(logits.reshape(-1, logits.shape[-1])[-1].astype(np.float32))
    row = np.minimum(row, LARGEST).astype(np.float64)
    ranks = np.where(np.isnan(row), -INF, row)
    order = sorted(range(row.size), key=lambda i: (-ranks[i], bool(np.isnan(row[i])), i))[:count]
    top = ranks.max()
    total = math.fsum(math.exp(x - top) for x in ranks) if top > -INF else NAN
    with np.errstate(invalid="ignore"):
        logs = row - top - math.log(total)
    if top == -INF:
        logs = np.where(np.isnan(row), NAN, -INF)
    return float(logs[token]), order, [float(logs[i]) for i in order]


def words(logits: Array, token: Array, count: int) -> Array:
    """Return the reference's words, for comparisons with it; `oracle` checks the reference."""
    row = logits.reshape(-1, logits.shape[-1])[-1]
    return top_logprobs_words(row, int(token[0, 0]), count).reshape(1, -1)


def top_logprobs(
    logits: Array | Sequence[Array], tokens: Sequence[int], count: int, label: str = ""
) -> LiveCase:
    """One call for each token."""
    rows = [logits] * len(tokens) if isinstance(logits, np.ndarray) else list(logits)
    steps = [
        (row, np.array([[token]], np.int32), count) for row, token in zip(rows, tokens, strict=True)
    ]
    return LiveCase(TOP_LOGPROBS, steps, words, out="int32", exact=False, label=label)


def special(values: Sequence[float]) -> LiveCase:
    return top_logprobs(np.array([values], np.float32), range(len(values)), 4, label="special")


SIZES = (1, 2, 7, 255, 257, 1023, 1025, 5003)

TOP_LOGPROBS_CASES: list[LiveCase] = [
    *(top_logprobs(logits_of(size), (0, size // 2, size - 1), 5) for size in SIZES),
    *(top_logprobs(logits_of(5003), (17,), count) for count in (1, 2, 20)),
    top_logprobs(logits_of(32000, scale=0.3), (31999, 5), 20),
    top_logprobs(logits_of(128256), (1,), 3),
    top_logprobs(np.zeros((1, 5003), np.float32), (4000,), 7, label="all equal"),
    top_logprobs(np.round(logits_of(5003)), (3,), 20, label="many equal"),
    top_logprobs(logits_of(331, scale=40.0), (2, 3), 9, label="far apart"),
    *(special(values) for values in SPECIAL),
    top_logprobs(
        [logits_of(n * 331, n).reshape(1, n, 331) for n in (5, 1, 3)],
        (7, 8, 9),
        6,
        label="last row",
    ),
]

Told = tuple[float, list[int], list[float]]


def expected(case: LiveCase) -> list[Told]:
    def told(logits: Array, token: Array, count: Any) -> Told:
        return oracle(logits, int(token[0, 0]), int(count))

    return [told(*step) for step in case.steps]
