"""Cases of choosing a token, and an oracle: float64, sorted, one word of chance after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, Sym

SAMPLE = "webpte.sample.default"
INF, NAN = math.inf, math.nan
LARGEST = np.float32(2.0**126)
SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal  # a GPU may take less for 0
ALMOST = 1e-5  # in binary logarithms: what two ways to compute may be apart


def settings(
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    penalty: float = 1.0,
) -> Array:
    return np.array([temperature, top_k, top_p, min_p, penalty, 0, 0, 0], np.float32)


def seed_of(number: int) -> Array:
    return np.array([number & 0xFFFFFFFF, number >> 32], np.uint32).view(np.int32)


def logits_of(length: int, seed: int = 0, scale: float = 3.0) -> Array:
    x = np.random.default_rng(seed).normal(0, scale, (1, length))
    return np.asarray(x).astype(np.float32)


# The oracle


def random_words(seed: Array, position: int, tokens: Array) -> Array:
    """Threefry-2x32-20 as its paper words it: key schedule, mix, permute."""
    k0, k1 = (int(word) & 0xFFFFFFFF for word in seed)
    schedule = [k0, k1, k0 ^ k1 ^ 0x1BD11BDA]
    left = np.full(tokens.shape, position, np.int64) + schedule[0] & 0xFFFFFFFF
    right = tokens.astype(np.int64) + schedule[1] & 0xFFFFFFFF
    for injection, turns in enumerate([(13, 15, 26, 6), (17, 29, 16, 24)] * 3):
        if injection == 5:
            break
        for turn in turns:
            left = left + right & 0xFFFFFFFF
            right = (right << turn | right >> 32 - turn) & 0xFFFFFFFF ^ left
        left = left + schedule[(injection + 1) % 3] & 0xFFFFFFFF
        right = right + schedule[(injection + 2) % 3] + injection + 1 & 0xFFFFFFFF
    return left


def plain_numbers(row: Array) -> Array:
    """Return logits as the operator reads them: clamped to LARGEST, subnormal ones 0."""
    row = np.where(np.isfinite(row), np.clip(row, -LARGEST, LARGEST), row)
    return np.where(np.abs(row) < SMALLEST_NORMAL, np.float32(0), row)


def penalized_logits(row: Array, history: Sequence[int], penalty: float) -> Array:
    """Return logits in float32 with the penalty of the operator; infinite logits stay."""
    out = row.astype(np.float32)
    for token in {int(token) for token in history if 0 <= token < row.size}:
        if (value := out[token]) < LARGEST:
            out[token] = value / np.float32(penalty) if value > 0 else value * np.float32(penalty)
    return out


def kept_tokens(row: Array, top_k: float, top_p: float, min_p: float, temperature: float) -> Array:
    """Return the finite logits (V,) that may be drawn."""
    order = np.argsort(-row, kind="stable")
    if 1 <= top_k < row.size:
        order = order[row[order] >= row[order[int(top_k) - 1]]]
    wide = row[order].astype(np.float64)
    weights = np.exp(np.maximum((wide - wide[0]) / temperature, -700.0))
    if 0 < top_p < 1:
        reached = np.cumsum(weights) >= top_p * math.fsum(weights)
        order = order[wide >= wide[np.argmax(reached)]]
    return np.sort(order[weights[: order.size] >= min_p])


def oracle_scores(
    logits: Array, history: Any, position: int, given: Array, seed: Array, *rest: Any
) -> tuple[Array, Array]:
    """Tokens that may be chosen, and for each how soon its clock rings: the least is chosen."""
    temperature, top_k, top_p, min_p, penalty = (float(value) for value in given[:5])
    with_top_k, with_top_p, penalized, *mask = rest
    row = plain_numbers(logits.reshape(-1, logits.shape[-1])[-1].astype(np.float32))
    if penalized:
        row = plain_numbers(penalized_logits(row, list(history[:position]), penalty))
    for words in mask:
        allowed = [token for token in range(row.size) if words[token // 32] >> token % 32 & 1]
        row = np.where(np.isin(np.arange(row.size), allowed), row, np.float32(NAN))
    (tokens,) = np.nonzero(np.isfinite(row) | (row == INF))
    if tokens.size == 0:
        tokens = np.flatnonzero(row == -INF) if np.any(row == -INF) else np.arange(row.size)
        return tokens, np.arange(tokens.size, dtype=np.float64)
    finite = np.minimum(row[tokens], LARGEST)
    if temperature <= 0:
        return tokens, -finite.astype(np.float64)
    kept = kept_tokens(
        finite,
        top_k if with_top_k else 0,
        top_p if with_top_p else 1,
        min_p,
        temperature,
    )
    words = random_words(seed, position, tokens[kept]) | 1
    waits = -np.log1p(-(2.0**32 - words) / 2.0**32)
    below = (float(finite.max()) - finite[kept].astype(np.float64)) / temperature
    return tokens[kept], below / math.log(2) + np.log2(waits)


def oracle_token(*args: Any) -> Array:
    tokens, scores = oracle_scores(*args)
    return np.array([[tokens[int(np.argmin(scores))]]])


def is_nearly(token: int, *args: Any) -> bool:
    """Whether the oracle could have chosen it with other rounding."""
    tokens, scores = oracle_scores(*args)
    return bool(np.any(scores[tokens == token] <= scores.min() + ALMOST))


# The table


def sample(
    logits: Array | Sequence[Array],
    positions: Sequence[int] = (0, 1, 7),
    history: Sequence[int] | None = None,
    label: str = "",
    live: bool = True,
    seed: int = 0x1234567_89ABCDEF,
    allowed: Sequence[int] | None = None,
    **given: Any,
) -> LiveCase:
    """One call for each position, with the steps that the settings need."""
    rows = [logits] * len(positions) if isinstance(logits, np.ndarray) else list(logits)
    values = settings(**given)
    flags = ("top_k" in given, "top_p" in given, "penalty" in given)
    tokens = None if history is None else np.array(history, np.int32)
    mask = [] if allowed is None else [mask_words(allowed, rows[0].shape[-1])]
    steps = [
        (row, tokens, Sym(position) if live else position, values, seed_of(seed), *flags, *mask)
        for row, position in zip(rows, positions, strict=True)
    ]
    words = [f"{name} {value:g}" for name, value in given.items()]
    return LiveCase(
        SAMPLE, steps, oracle_token, out="int32", exact=False, label=" ".join([*words, label])
    )


def mask_words(tokens: Sequence[int], vocabulary: int) -> Array:
    """A bit for each token, by hand."""
    words = [0] * -(-vocabulary // 32)
    for token in tokens:
        words[token // 32] |= 1 << token % 32
    return np.array(words, np.uint32).view(np.int32)


SIZES = (1, 2, 7, 255, 256, 257, 512, 1023, 1025, 5003)

SIZE_CASES = [
    *(sample(logits_of(size)) for size in SIZES),
    *(sample(logits_of(size), temperature=0.0) for size in SIZES),
    *(sample(logits_of(size), top_k=5) for size in SIZES),
    *(sample(logits_of(size), top_p=0.7) for size in SIZES),
    *(sample(logits_of(size), top_k=40, top_p=0.9, min_p=0.02) for size in SIZES),
    sample(logits_of(32000), temperature=0.8),
    sample(logits_of(32000), top_k=50, top_p=0.95),
    sample(logits_of(128256, scale=0.3), top_k=100, top_p=0.5),
    sample(logits_of(262144, scale=0.3), positions=(3,), top_p=0.99),
]

SETTING_CASES = [
    *(sample(logits_of(331), temperature=t) for t in (1e-35, 1e-6, 0.1, 1.7, 100.0, 1e6, 1e35)),
    *(sample(logits_of(331), temperature=t, top_k=9) for t in (1e-6, 1e6, 1e35)),
    *(sample(logits_of(331), temperature=t, top_p=0.5) for t in (1e-6, 1e6)),
    *(sample(logits_of(331), top_k=k) for k in (0, 1, 330, 331, 332, 100_000)),
    *(sample(logits_of(331), top_p=p) for p in (1e-9, 0.1, 0.999, 1.0)),
    *(sample(logits_of(331), min_p=p) for p in (1e-12, 0.05, 0.5, 1.0)),
    *(sample(logits_of(331), top_k=k, top_p=0.4) for k in (1, 3, 331)),
    sample(logits_of(331), top_k=20, top_p=1.0),
    sample(logits_of(331), positions=(2**31 - 1, 0, 65536)),
    sample(logits_of(331), positions=(5,), live=False, label="int"),
    *(sample(logits_of(331), seed=seed, label=f"seed {seed}") for seed in (0, 1, 2**64 - 1)),
]

HISTORY = [5, 3, 3, 3, 330, 0, 5, 256, 255, 17, 3, -1, 331, 2_000_000_000]

# The first token is largest, then others far from it; each is passed over once it was there.
STAIRS = np.zeros((1, 5003), np.float32)
STAIRS[0, [4000, 5, 1500, 1024]] = [9, 8, 7, 6]

PENALTY_CASES = [
    sample(STAIRS, (0, 1, 2, 3), [4000, 5, 1500, 0], penalty=100.0, temperature=0.0),
    *(
        sample(logits_of(331), (0, 1, 4, len(HISTORY)), HISTORY, penalty=penalty)
        for penalty in (0.5, 1.0, 1.3, 40.0)
    ),
    sample(logits_of(331), (0, 14), HISTORY, penalty=1.3, temperature=0.0),
    sample(logits_of(331), (0, 14), HISTORY, penalty=1.3, top_k=10, top_p=0.8, min_p=0.01),
    sample(logits_of(5003), (700, 3), list(range(0, 2100, 3)), penalty=3.0, temperature=0.0),
    sample(logits_of(5003), (700, 3), list(range(0, 2100, 3)), penalty=3.0),
    sample(np.full((1, 40), 2, np.float32), (39,), [*range(39)], penalty=2.0, temperature=0.0),
]


def special(values: Sequence[float], **given: Any) -> LiveCase:
    return sample(np.array([values], np.float32), (0, 1, 2, 3), label="special", **given)


SPECIAL = (
    (NAN, 1, NAN, 2, 0),
    (NAN, NAN, NAN),
    (-INF, -INF, -INF),
    (NAN, -INF, NAN, -INF),
    (-INF, 1, -INF, 1.5),
    (INF, 1, 3e38, 2),
    (INF, 1, INF, NAN, INF),
    (-3.4e38, 0, 3.4e38, -3.4e38, -INF),
    (-3.4e38, -3.4e38, -INF),
    (0.0, -0.0, 1e-40, -1e-40, -1),
    (1e-40, -3, 0.0),
)

SPECIAL_CASES = [
    *(special(values) for values in SPECIAL),
    *(special(values, temperature=0.0) for values in SPECIAL),
    *(special(values, top_k=2, top_p=0.6) for values in SPECIAL),
    *(
        sample(np.array([values], np.float32), (0, 2, 3), [0, 2, 3], penalty=1.5, label="special")
        for values in SPECIAL
    ),
    # Ties: at the threshold all are kept, and the first is the largest.
    special((1, 2, 2, 2, 0), top_k=2),
    special((1, 2, 2, 2, 0), top_p=0.3),
    special((2, 2, 2, 2), temperature=0.0),
    sample(np.zeros((1, 5003), np.float32), tuple(range(12)), top_k=1, label="all equal"),
    sample(np.zeros((1, 5003), np.float32), tuple(range(12)), top_p=0.01, label="all equal"),
]

EACH_LENGTH: list[dict[str, Any]] = [{}, {"top_k": 4, "top_p": 0.9}]

# The last row counts, at whatever length; and nothing is left from longer rows before.
LIVE_CASES = [
    sample(
        [logits_of(length * 331, length).reshape(1, length, 331) for length in (5, 1, 3, 5)],
        (5, 6, 9, 14),
        label="last row",
        **given,
    )
    for given in EACH_LENGTH
]

FEW = [0, 31, 32, 63, 64, 200, 330]

MASK_CASES = [
    sample(logits_of(331), allowed=FEW, temperature=0.0, label="allowed"),
    sample(logits_of(331), (3, 4, 5, 6), allowed=FEW, temperature=5.0, label="allowed"),
    sample(logits_of(331), allowed=FEW, top_k=3, top_p=0.8, label="allowed"),
    sample(logits_of(331), (14,), HISTORY, allowed=FEW, penalty=3.0, label="allowed"),
    sample(logits_of(32), allowed=[31], label="allowed"),
    sample(logits_of(5003), allowed=[4999], temperature=0.0, label="allowed"),
    sample(np.array([[INF, 1, NAN, -INF]], np.float32), allowed=[2, 3], label="allowed"),
]

SAMPLE_CASES = [
    *(*SIZE_CASES, *SETTING_CASES, *PENALTY_CASES, *SPECIAL_CASES, *LIVE_CASES, *MASK_CASES),
]
