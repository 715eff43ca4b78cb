"""Rows of a KV cache in f16 and 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

from webpte.engine.ops.attention.cache_packing import PACKINGS, CachePacking, pack_rows, unpack_rows

SIZES = [1, 2, 3, 4, 5, 33, 64, 128]
HALF, BYTES = PACKINGS["f16"], PACKINGS["int8"]


def rows_of(size: int) -> np.ndarray:
    random = np.random.default_rng(size)
    scales = np.exp(random.uniform(-40, 40, (500, 1)))
    return (random.standard_normal((500, size)) * scales).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_halves_are_those_of_numpy(size: int) -> None:
    rows = rows_of(size)
    with np.errstate(over="ignore"):
        wanted = rows.astype(np.float16).astype(np.float32)
    words = pack_rows(rows, HALF)
    assert words.shape == (500, HALF.words(size)) == (500, 2 * -(-size // 4))
    np.testing.assert_array_equal(unpack_rows(words, size, HALF), wanted)


@pytest.mark.parametrize("size", SIZES)
def test_numbers_of_8_bits_are_the_nearest(size: int) -> None:
    rows = rows_of(size)
    words = pack_rows(rows, BYTES)
    assert words.shape == (500, BYTES.words(size)) == (500, 1 + -(-size // 4))
    found, steps = unpack_rows(words, size, BYTES), words[:, :1].view(np.float32)
    peaks = np.abs(rows).max(axis=1, keepdims=True)
    np.testing.assert_allclose(steps, peaks / 127, rtol=2**-16)
    assert (np.abs(found.astype(np.float64) - rows) <= 0.5005 * steps).all()
    numbers = found / steps
    np.testing.assert_array_equal(numbers, np.rint(numbers))
    assert np.abs(numbers).max() == 127


@pytest.mark.parametrize("size", SIZES)
def test_a_number_times_its_step_is_exact(size: int) -> None:
    """A kernel may then multiply in any order, and with fused steps, and reads the same."""
    words = pack_rows(rows_of(size), BYTES)
    steps = words[:, :1].view(np.float32).astype(np.float64)
    for number in (1, 3, 77, 126, 127):
        product = number * steps
        np.testing.assert_array_equal(product, product.astype(np.float32))


@pytest.mark.parametrize("packing", [HALF, BYTES])
@pytest.mark.parametrize("size", SIZES)
def test_what_was_packed_once_stays(size: int, packing: CachePacking) -> None:
    once = pack_rows(rows_of(size), packing)
    twice = pack_rows(unpack_rows(once, size, packing), packing)
    np.testing.assert_array_equal(once, twice)


def test_rows_of_zeros_and_of_tiny_numbers() -> None:
    rows = np.array([[0, -0.0, 0], [1e-30, 0, -1e-35], [1e-20, 0, -5e-21]], np.float32)
    words = pack_rows(rows, BYTES)
    assert not words[:2].any()
    np.testing.assert_allclose(unpack_rows(words, 3, BYTES)[2], rows[2], rtol=0.01)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so(bad: float) -> None:
    rows = np.array([[1, 2, bad], [1, 2, 3]], np.float32)
    found = unpack_rows(pack_rows(rows, BYTES), 3, BYTES)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    halves = unpack_rows(pack_rows(rows, HALF), 3, HALF)
    np.testing.assert_array_equal(halves, rows)


def test_ties_go_to_the_even_number() -> None:
    rows = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5]], np.float32)
    found = unpack_rows(pack_rows(rows, BYTES), 6, BYTES)
    np.testing.assert_array_equal(found, [[127, 0, 2, 2, 0, -2]])
