"""The NumPy reference of sample.py: keys, thresholds and the exponential races.

All arithmetic is in integers, as in wgsl/lib/sampling/logit_keys.wgsl and
wgsl/lib/sampling/sample.wgsl, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.fixed_point import (
    leading_zeros,
    log2_of_wait,
    negative_log2,
    negative_power,
    threefry,
)
from webpte.engine.ops.core.records import ceil_div

Array = np.ndarray

WORD_BITS = 32

# Also in wgsl/lib/sampling/logit_keys.wgsl.
NAN_KEY, MINUS_INFINITY_KEY, ZERO_KEY = 0, 1, 0x80000000
LARGEST, SMALLEST_NORMAL = 0x7E800000, 0x00800000
MAX_DISTANCE = 64 << 24
LOG2_E = np.float32(1.442695)
MIN_TEMPERATURE, MAX_TEMPERATURE = np.float32(1e-30), np.float32(1e30)


@dataclass(frozen=True)
class Settings:
    """The settings tensor of a call; steps without their flag are turned off."""

    temperature: np.float32
    top_k: int
    top_p: np.float32
    min_p: np.float32
    penalty: np.float32

    @classmethod
    def of(cls, settings: Array, with_top_k: bool, with_top_p: bool, penalized: bool) -> Settings:
        temperature, top_k, top_p, min_p, penalty = settings.astype(np.float32)[:5]
        return cls(
            temperature,
            int(min(top_k, 2**31)) if with_top_k and top_k >= 1 else 0,
            top_p if with_top_p and 0 < top_p < 1 else np.float32(1),
            min_p if min_p > 0 else np.float32(0),
            penalty if penalized and penalty > 0 else np.float32(1),
        )


def choose_token(
    logits: Array,
    settings: Settings,
    seed: Array,
    position: int,
    history: Sequence[int] | Array = (),
    allowed: Array | None = None,
) -> int:
    """Draw a token from logits (V,); the kernels compute the same numbers."""
    keys = keys_of(logits.astype(np.float32))
    if settings.penalty != 1:
        penalize(keys, np.asarray(history, np.int64), settings.penalty)
    if allowed is not None:
        keys[~allowed_tokens(allowed, keys.size)] = NAN_KEY
    if keys.max() <= MINUS_INFINITY_KEY or not settings.temperature > 0:
        return int(keys.argmax())
    tokens, distance = kept_tokens(keys, settings)
    key = int(seed[0]) & 0xFFFFFFFF, int(seed[1]) & 0xFFFFFFFF
    return int(tokens[exponential_race(distance, threefry(key, position, tokens))])


def mask_of(tokens: Array, vocabulary: int) -> Array:
    """Return the operator's `allowed` mask for a list of tokens."""
    bits = np.zeros(ceil_div(vocabulary, WORD_BITS) * WORD_BITS, np.bool_)
    bits[tokens] = True
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)


def allowed_tokens(mask: Array, vocabulary: int) -> Array:
    """Unpack an `allowed` mask: a bool per token, (vocabulary,)."""
    words = np.ascontiguousarray(mask.reshape(-1), "<i4")
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:vocabulary].astype(np.bool_)


def exponential_race(distance: Array, words: Array) -> int:
    """Return the index of the least distance + log2_of_wait(words).

    log2(1 - u) is a lower bound of log2(-log2(u)), and its integer part already rules out most
    tokens.
    """
    rest = np.uint64(1 << 32) - (words.astype(np.uint64) | np.uint64(1))
    soonest = distance - ((leading_zeros(rest).astype(np.int64) + 1) << 24)
    likely = int(np.argmin(soonest))
    latest = distance[likely] + log2_of_wait(words[likely : likely + 1])[0]
    (left,) = np.nonzero(soonest <= latest)
    return int(left[np.argmin(distance[left] + log2_of_wait(words[left]))])


def kept_tokens(keys: Array, settings: Settings) -> tuple[Array, Array]:
    """Return the tokens to draw from, and the distance of each below the largest."""
    top = int(keys.max())
    smallest = top_k_threshold(keys, settings.top_k)
    if settings.top_p < 1:
        kept = keys[keys >= smallest]
        smallest = top_p_threshold(kept, distances(top, kept, settings), settings.top_p)
    distance = distances(top, keys, settings)
    (tokens,) = np.nonzero((keys >= smallest) & (distance <= min_p_distance(settings.min_p)))
    return tokens, distance[tokens]


def keys_of(numbers: Array) -> Array:
    """Return integers that order as float32 numbers do, see wgsl/lib/sampling/logit_keys.wgsl."""
    bits = numbers.view(np.uint32).astype(np.int64)
    magnitude = bits & 0x7FFFFFFF
    size = np.where(magnitude < SMALLEST_NORMAL, 0, np.minimum(magnitude, LARGEST))
    keys = np.where(bits == magnitude, ZERO_KEY + size, ZERO_KEY - size)
    return np.where(np.isnan(numbers), 0, np.where(numbers == -np.inf, MINUS_INFINITY_KEY, keys))


def numbers_of(keys: Array) -> Array:
    sizes = np.abs(keys - ZERO_KEY).astype(np.uint32).view(np.float32)
    return np.where(keys >= ZERO_KEY, sizes, -sizes)


def penalize(keys: Array, history: Array, penalty: np.float32) -> None:
    """Apply the repetition penalty in place; infinities stay."""
    tokens = np.unique(history[(history >= 0) & (history < keys.size)])
    tokens = tokens[(keys[tokens] > MINUS_INFINITY_KEY) & (keys[tokens] < ZERO_KEY + LARGEST)]
    x = numbers_of(keys[tokens])
    with np.errstate(over="ignore", under="ignore"):
        keys[tokens] = keys_of(np.where(x > 0, x / penalty, x * penalty))


def distances(top: int, keys: Array, settings: Settings) -> Array:
    return distances_below(
        top, keys, LOG2_E / np.clip(settings.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE)
    )


def distances_below(top: int, keys: Array, factor: np.float32) -> Array:
    """Return log2(largest probability / probability) of each key in Q24; MAX_DISTANCE at most."""
    finite = keys > MINUS_INFINITY_KEY
    numbers = numbers_of(np.where(finite, keys, top))
    with np.errstate(over="ignore", under="ignore"):
        below = (numbers_of(np.asarray(top, np.int64)) - numbers) * factor
    exact = np.minimum(below, np.float32(64)).astype(np.float64) * (1 << 24)
    return np.where(finite, exact.astype(np.int64), MAX_DISTANCE)


def top_k_threshold(keys: Array, count: int) -> int:
    """Return the k-th largest key; 0 if all tokens are kept."""
    if not 0 < count < keys.size:
        return 0
    return int(np.partition(keys, keys.size - count)[keys.size - count])


def top_p_threshold(keys: Array, distance: Array, share: np.float32) -> int:
    """Return the key at which the probabilities, summed from the largest down, reach a share."""
    order = np.argsort(-keys, kind="stable")
    masses = np.cumsum(negative_power(distance[order]))
    mark = int(masses[-1]) * int(float(share) * 2**32) >> 32
    return int(keys[order[np.searchsorted(masses, np.uint64(mark))]])


def min_p_distance(min_p: np.float32) -> int:
    """Return the largest distance that min-p keeps; a token at MAX_DISTANCE is never drawn."""
    word = int(min(float(min_p), 1.0) * 2**32)
    if word == 0:
        return MAX_DISTANCE - 1
    return 0 if word >> 32 else min(int(negative_log2(np.array([word]))[0]), MAX_DISTANCE - 1)
