from __future__ import annotations

import json

import numpy as np
import pytest

from page.shared.outputs.renderers.scores import largest
from page.shared.outputs.tensors import first_values, grid, histogram, summarise, values_text


def test_summary() -> None:
    summary = summarise(np.array([[1, 2], [3, 6]], np.float32))
    assert (summary.low, summary.high, summary.mean) == (1, 6, 3)
    assert summary.std == pytest.approx(np.std([1, 2, 3, 6]))
    assert (summary.count, summary.nbytes, summary.nan, summary.inf) == (4, 16, 0, 0)


def test_summary_leaves_out_what_is_not_finite() -> None:
    summary = summarise(np.array([np.nan, np.inf, -np.inf, 2, 4], np.float32))
    assert (summary.nan, summary.inf) == (1, 2)
    assert (summary.low, summary.high, summary.mean) == (2, 4, 3)


@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.array([np.nan, np.nan])])
def test_summary_of_nothing(array: np.ndarray) -> None:
    summary = summarise(array)
    assert summary.low is summary.high is summary.mean is None


def test_summary_of_other_types() -> None:
    assert summarise(np.array([True, False])).high is True
    assert summarise(np.array([2**40, 1], np.int64)).high == 2**40
    # 70000 of these overflow a float16 sum
    assert summarise(np.full(70_000, 60_000, np.float16)).mean == pytest.approx(60_000)


def test_histogram() -> None:
    spread = histogram(np.array([0, 0, 0, 1, 2, np.nan], np.float32), bins=2)
    assert spread is not None
    assert spread.counts == (3, 2)
    assert (spread.low, spread.high) == (0, 2)


@pytest.mark.parametrize(
    "array", [np.zeros(9), np.zeros(0), np.array([np.nan, 1.0]), np.array([True, False])]
)
def test_no_histogram(array: np.ndarray) -> None:
    assert histogram(array) is None


def test_first_values() -> None:
    assert first_values(np.arange(4).reshape(2, 2), 3) == ["0", "1", "2"]


def test_grid_of_a_matrix() -> None:
    corner = grid(np.arange(12).reshape(3, 4), rows=2, columns=3)
    assert corner.rows == (("0", "1", "2"), ("4", "5", "6"))
    assert corner.more_rows
    assert corner.more_columns
    assert corner.where == ""


def test_grid_of_more_dims_says_where() -> None:
    assert grid(np.zeros((2, 3, 4))).where == "[0]"
    assert grid(np.zeros((1, 1, 3, 4))).where == ""


def test_long_vectors_are_wrapped() -> None:
    for shape in ((20,), (1, 20), (1, 1, 20)):
        wrapped = grid(np.arange(20).reshape(shape), rows=2, columns=4)
        assert wrapped.rows[1] == ("4", "5", "6", "7")
        assert wrapped.more_rows
        assert not wrapped.more_columns


def test_grid_of_a_scalar_and_of_nothing() -> None:
    assert grid(np.full((), 2, np.float32)).rows == (("2",),)
    assert grid(np.zeros((0, 4))).rows == ()


def test_largest() -> None:
    scores = np.arange(20, dtype=np.float32)
    scores[3] = 99
    assert largest(scores.reshape(1, 1, 20), 2) == [(3, 99.0), (19, 19.0)]
    assert largest(scores.reshape(4, 5)) == []
    assert largest(scores.astype(np.int64)) == []
    assert largest(np.zeros((), np.float32)) == []


def test_values_text() -> None:
    assert json.loads(values_text(np.array([[1.5, 2], [3, 4]]))) == [[1.5, 2], [3, 4]]
    assert values_text(np.array([np.nan, True])) == "[NaN, 1.0]"
    assert values_text(np.array([True])) == "[true]"


def test_lines_of_a_vector_start_with_indices() -> None:
    assert grid(np.arange(24)).starts == (0, 7, 14, 21)
    assert grid(np.arange(24).reshape(1, 24)).starts == (0, 7, 14, 21)
    assert grid(np.arange(5)).starts == ()  # one line needs none
    assert grid(np.arange(24).reshape(4, 6)).starts == ()
