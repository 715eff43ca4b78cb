"""Scatters: references, refused arguments, and calls that run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, check_reference, dispatch_of, lowered
from support.cases.move.scatter_cases import ADD, PUT, SRC, VALUE
from support.cases.move.scatter_unique_cases import OP as UNIQUE
from support.cases.row_cases import normal
from webpte.errors import ExecutionError, GraphError, IndexRangeError


def test_the_last_of_several_values_stays() -> None:
    index, source = np.array([1, 0, 1], np.int32), np.array([5, 6, 7], np.float32)
    args = (np.zeros(3, np.float32), 0, index, source)
    for op, wanted in ((SRC, [6, 7, 0]), (ADD, [6, 12, 0])):
        given = LiveCase(
            op, [args], lambda *_, row=wanted: np.array(row), out="float32", exact=False
        )
        check_reference(given)


def call(op: str, *args: Any, dims: tuple[int, ...] = (5, 7)) -> LiveCase:
    return LiveCase(op, [args], lambda *_: np.zeros(dims), out="float32", exact=False)


X, AT = normal((5, 7)), np.zeros((5, 7), np.int32)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (call(ADD, X, 0, AT[0], X), "do not fit"),
        (call(ADD, X, 0, AT, X[:2]), "do not fit"),
        (call(ADD, X[:, :3], 0, AT, X, dims=(5, 3)), "do not fit"),
        (call(SRC, X, 0, X, X), "not float32"),
        (call(PUT, X, [AT[0], AT[0], AT[0]], X[0], False), "for rank 2"),
        (call(PUT, X, [AT[0]], normal((3, 7)), False), "broadcast|values"),
    ],
)
def test_refuses(case: LiveCase, message: str) -> None:
    with pytest.raises((GraphError, ExecutionError), match=message):
        lowered(case)


@pytest.mark.parametrize("op", [SRC, VALUE, ADD, UNIQUE])
def test_negative_indices_are_refused_as_in_pytorch(op: str) -> None:
    source: Any = 1.0 if op == VALUE else X[:, :1]
    at = np.array([[0], [-1], [2], [3], [4]], np.int32)
    with pytest.raises(IndexRangeError, match="index -1 is out of bounds"):
        check_reference(call(op, X, 1, at, source))
    dispatches = lowered(call(op, X, 1, at, source))[0].dispatches()
    (kernel,) = (one for one in dispatches if one.kernel.startswith("scatter"))
    assert dict(kernel.overrides)["WRAPS"] is False


def test_negative_indices_of_index_put_count_from_the_end() -> None:
    put = call(PUT, X, [np.array([-1], np.int32)], X[0], False)
    assert "WRAPS" not in dict(dispatch_of(put).overrides)


@pytest.mark.parametrize("outside", [5, -6])
def test_an_index_out_of_range_is_an_error(outside: int) -> None:
    with pytest.raises(ExecutionError, match="out of bounds"):
        check_reference(call(VALUE, X, 0, np.full((1, 1), outside, np.int32), 1.0))


def test_searches_of_several_index_tensors_that_are_too_large_run_on_the_host() -> None:
    large, at = np.zeros((70_000, 1), np.float32), np.zeros(70_000, np.int32)
    case = call(PUT, large, [at, at], at.astype(np.float32), True, dims=large.shape)
    planner, _ = lowered(case)
    assert any(step.host for step in planner.calls)


def test_the_indices_of_large_scatters_are_sorted() -> None:
    large, at = np.zeros(70_000, np.float32), np.zeros(70_000, np.int32)
    kernels = [
        record.kernel
        for record in lowered(call(ADD, large, 0, at, large + 1, dims=large.shape))[0].dispatches()
    ]
    assert kernels[0] == "sort_runs"
    assert kernels[-1] == "scatter_sorted"
