"""Fixed-point functions against float64, and random words against known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.cases.cases import Array
from webpte.engine.ops.core.fixed_point import (
    leading_zeros,
    log2_of_wait,
    mul_hi,
    negative_log2,
    negative_power,
    threefry,
)

ONES = 0xFFFFFFFF


def words() -> Array:
    """Return small words, large words, words around powers of two, and many in between."""
    powers = 2 ** np.arange(32)
    around = np.concatenate([powers - 1, powers, powers + 1, 2**32 - powers])
    some = np.random.default_rng(0).integers(1, 2**32, 100_000)
    every = np.concatenate([np.arange(1, 3000), 2**32 - np.arange(1, 3000), around, some])
    return every[(every > 0) & (every < 2**32)].astype(np.uint64)


@pytest.mark.parametrize(
    ("key", "counter", "word"),
    [
        # From the file kat_vectors of Random123: zeros, ones, digits of pi.
        ((0, 0), (0, 0), 0x6B200159),
        ((ONES, ONES), (ONES, ONES), 0x1CB996FC),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), 0xC4923A9C),
    ],
)
def test_known_answers_of_threefry(
    key: tuple[int, int], counter: tuple[int, int], word: int
) -> None:
    assert threefry(key, counter[0], np.array([counter[1]], np.uint32)).tolist() == [word]


def test_bits_are_even() -> None:
    """Each bit of many words, over tokens and over positions: half of them, within 5 sigma."""
    over_tokens = threefry((1, 2), 3, np.arange(100_000))
    over_positions = np.concatenate([threefry((1, 2), at, np.array([5])) for at in range(4000)])
    for found in (over_tokens, over_positions):
        ones = (found[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)).sum(axis=0)
        assert np.abs(ones - found.size / 2).max() < 5 * math.sqrt(found.size) / 2


def test_high_products() -> None:
    n = words()
    for a, b in zip(n[:500].tolist(), n[::-1][:500].tolist(), strict=True):
        product = mul_hi(np.array([a], np.uint64), np.array([b], np.uint64))
        assert product.tolist() == [a * b >> 32]


def test_leading_zeros() -> None:
    n = words()
    assert leading_zeros(n).tolist() == [32 - int(word).bit_length() for word in n]


def test_logarithms() -> None:
    n = words()
    exact = 32 - np.log2(n.astype(np.float64))
    assert np.abs(negative_log2(n) / 2.0**24 - exact).max() < 2**-21.5


def test_waits() -> None:
    """-log of a uniform number near 1 is small, and all its digits count."""
    n = words() | np.uint64(1)
    below = (2.0**32 - n.astype(np.float64)) / 2**32
    exact = np.log2(-np.log1p(-below) / math.log(2))
    assert np.abs(log2_of_wait(n) / 2.0**24 - exact).max() < 2**-20.5


def test_powers() -> None:
    x = np.random.default_rng(1).integers(0, 64 << 24, 100_000)
    assert np.abs(negative_power(x) / 2.0**31 - 2.0 ** (-x / 2**24)).max() < 2**-21.5
    whole = np.array([0, 1, 5, 31, 32, 63, 64])
    assert negative_power(whole << 24).tolist() == [2**31 >> n for n in whole.tolist()]
