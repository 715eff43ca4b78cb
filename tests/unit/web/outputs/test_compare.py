from __future__ import annotations

import numpy as np
import pytest

from page.outputs.compare import compare


def test_agrees_within_the_tolerance() -> None:
    expected = np.array([1, 100, 0], np.float32)
    result = compare(expected + np.array([5e-4, 0.05, 5e-4], np.float32), expected, "x.npy")
    assert result.agrees
    assert result.max_abs == pytest.approx(0.05, rel=1e-3)
    assert result.worst == (1,)


def test_names_what_is_wrong() -> None:
    expected = np.zeros((3, 4), np.float32)
    actual = expected.copy()
    actual[2, 1] = 0.5
    result = compare(actual, expected, "x.npy")
    assert not result.agrees
    assert (result.wrong, result.count, result.worst) == (1, 12, (2, 1))


def test_nan_equals_nan_only() -> None:
    nan = np.array([np.nan, 1.0])
    assert compare(nan, nan, "x").agrees
    assert not compare(nan, np.array([0.0, 1.0]), "x").agrees
    assert compare(nan, np.array([0.0, 1.0]), "x").max_abs == np.inf


def test_infinities() -> None:
    inf = np.array([np.inf, -np.inf])
    assert compare(inf, inf, "x").agrees
    assert compare(inf, inf, "x").max_abs == 0
    assert not compare(inf, -inf, "x").agrees


def test_other_types_and_shapes() -> None:
    assert compare(np.array([True]), np.array([1]), "x").agrees
    assert not compare(np.array([2**40], np.int64), np.array([2**40 + 2**38], np.int64), "x").agrees
    assert "shapes differ" in compare(np.zeros(3), np.zeros((3, 1)), "x").problem
    assert compare(np.zeros((0, 3)), np.zeros((0, 3)), "x").agrees
