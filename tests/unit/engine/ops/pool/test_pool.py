"""Pooling: the NumPy references against plain loops, and refused arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cases.pool.pool_cases import (
    AVERAGE,
    UNEVEN,
    average,
    digits,
    maximum,
    uneven,
    with_indices,
)
from support.cases.row_cases import RowCase, normal
from support.graphs.graphs import make_planner, read_graph, wait
from webpte.engine.ops.core.records import Dispatch
from webpte.errors import GraphError

# Computed by PyTorch, from numbers that count 0, 1, 2, ..
PADDED = [[[1, 3, 13 / 3, 8 / 3], [6, 13.5, 15.5, 8.5], [7, 15, 49 / 3, 26 / 3]]]
INSIDE = [[[3, 4.5, 6.5, 8], [12, 13.5, 15.5, 17], [21, 22.5, 24.5, 26]]]


@pytest.mark.parametrize(("counted", "expected"), [(True, PADDED), (False, INSIDE)])
def test_numbers_of_torch(counted: bool, expected: list[Any]) -> None:
    x = np.arange(30, dtype=np.float32).reshape(1, 5, 6)
    case = average(x, [3, 2], [2, 2], [1, 1], True, counted, None)
    wait(replace(case, expect=lambda *args: expected).run_reference())


def test_an_empty_window() -> None:
    """Dilation steps over the whole input: torch gives -inf, and the first tap behind it."""
    case = with_indices(np.ones((1, 1, 4), np.float32), [2, 1], [1, 1], [1, 0], [2, 1])
    nothing = np.full((1, 1, 4), -np.inf), np.arange(4).reshape(1, 1, 4) + 4
    wait(replace(case, expect=lambda *args: nothing).run_reference())


def dispatches(case: RowCase) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    return planner.dispatches()


@pytest.mark.parametrize(("size", "lanes"), [(3, 1), (7, 16), (40, 64)])
def test_large_windows_are_shared(size: int, lanes: int) -> None:
    for case in (average(normal((1, 2, 50, 50)), [size]), maximum(digits((1, 2, 50, 50)), [size])):
        (dispatch,) = dispatches(
            replace(case, expect=lambda x, *a: x[..., : 50 // size, : 50 // size])
        )
        assert dict(dispatch.overrides)["LANES"] == lanes


def test_no_images_make_no_dispatch() -> None:
    assert dispatches(average(normal((0, 3, 5, 5)), [2])) == ()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([2, 2], [0, 1]), "stride"),
        (([2, 2, 2],), "kernel_size must have 1 or 2"),
        (([],), "kernel_size must have 1 or 2"),
        (([3, 3], [], [2, 2]), "more than half"),
        (([7, 3],), "does not fit"),
        (([2, 2], [2, 2], [0, 0], False, True, 0), "divisor_override"),
    ],
)
def test_wrong_arguments(args: tuple[Any, ...], message: str) -> None:
    case = replace(average(normal((1, 2, 5, 5)), *args), expect=lambda *a: np.zeros((1, 2, 2, 2)))
    with pytest.raises(GraphError, match=message) as raised:
        dispatches(case)
    assert AVERAGE in str(raised.value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([2, 2], [1, 1], [1, 1]), "is not"),
        (([2, 2], [1, 1], [0, 0, -1, 0]), "is not"),
        (([2, 3], [1, 1], [0, 0, 2, 0]), "in the padding"),
        (([7, 3], [1, 1], [0, 0, 1, 0]), "does not fit"),
        (([2, 2], [], [0, 0, 1, 0]), "stride"),
    ],
)
def test_wrong_paddings_of_four_sides(args: tuple[Any, ...], message: str) -> None:
    case = replace(uneven(normal((1, 2, 5, 5)), *args), expect=lambda *a: np.zeros((1, 2, 2, 2)))
    with pytest.raises(GraphError, match=message) as raised:
        dispatches(case)
    assert UNEVEN in str(raised.value)


def test_wrong_tensors() -> None:
    flat = replace(average(normal((5, 5)), [2]), expect=lambda *a: np.zeros((2, 2)))
    with pytest.raises(GraphError, match=r"\(C, H, W\)"):
        dispatches(flat)
    truth = np.ones((1, 4, 4), bool)
    with pytest.raises(GraphError, match="bool cannot be pooled"):
        dispatches(replace(maximum(truth, [2]), expect=lambda *a: truth[..., ::2, ::2]))
    floats = replace(with_indices(normal((1, 4, 4)), [2]), outs=("float32", "float32"))
    with pytest.raises(GraphError, match="indices are int32 or int64, not float32"):
        dispatches(floats)
