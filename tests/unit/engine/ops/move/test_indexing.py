"""The indexing family: references, which kernel variant, and indices that are out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, check_reference, dispatch_of, lowered, random_bits
from support.cases.move.indexing_cases import indexed, indices
from webpte.errors import ExecutionError, GraphError, UnsupportedError

GATHER, INDEX = "aten.gather.default", "aten.index.Tensor"
SELECT, EMBEDDING = "aten.index_select.default", "aten.embedding.default"


@pytest.mark.parametrize(
    ("shape", "dtype", "unit", "parts"),
    [
        ((5, 8), "float32", "vec4<u32>", 1),
        ((5, 3), "float32", "u32", 1),
        ((5, 16), "uint8", "vec4<u32>", 1),
        ((5, 4), "uint8", "u32", 1),
        ((5, 3), "uint8", "u32", 4),
        ((5,), "float32", "u32", 1),
    ],
)
def test_moves_as_wide_as_rows_allow(
    shape: tuple[int, ...], dtype: str, unit: str, parts: int
) -> None:
    dispatch = dispatch_of(LiveCase(INDEX, [(random_bits(shape, dtype), [indices(5, 3)])], indexed))
    assert dict(dispatch.types) == {"UNIT": unit}
    assert dict(dispatch.overrides) == {"PARTS": parts, "INDICES": 1}


@pytest.mark.parametrize("outside", [5, -6, 2**30])
@pytest.mark.parametrize(
    ("op", "args"),
    [
        (GATHER, lambda x, i: (x, 0, i.reshape(1, 1))),
        (INDEX, lambda x, i: (x, [i])),
        (SELECT, lambda x, i: (x, 0, i)),
        (EMBEDDING, lambda x, i: (x, i)),
    ],
)
def test_out_of_range_is_an_error_of_the_reference(op: str, args: Any, outside: int) -> None:
    index = np.array([outside], np.int32)
    rows = np.zeros((1, 1 if op == GATHER else 3), np.uint32)
    case = LiveCase(op, [args(random_bits((5, 3)), index)], lambda *_: rows)
    with pytest.raises(ExecutionError, match=rf"op 0 \({op}\): index .*out of bounds"):
        check_reference(case)


@pytest.mark.parametrize("op", [GATHER, SELECT, EMBEDDING])
def test_negative_indices_are_refused_where_pytorch_refuses_them(op: str) -> None:
    index = np.array([[-1]] if op == GATHER else [-1], np.int32)
    x = random_bits((5, 3))
    args = (x, index) if op == EMBEDDING else (x, 0, index)
    case = LiveCase(op, [args], lambda *_: np.zeros((1, 1 if op == GATHER else 3), np.uint32))
    with pytest.raises(ExecutionError, match="index -1 is out of bounds"):
        check_reference(case)
    assert dict(dispatch_of(case).overrides)["WRAPS"] is False


def five_indices() -> LiveCase:
    index: list[Array | None] = [indices(2, 3) for _ in range(5)]
    return LiveCase(INDEX, [(random_bits((2,) * 5), index)], indexed)


def test_more_indices_than_the_kernel_takes_run_on_the_host() -> None:
    planner, _ = lowered(five_indices())
    assert planner.dispatches() == ()
    assert "5 index tensors" in str(planner.calls[0].host)
    check_reference(five_indices())


@pytest.mark.parametrize("mask", ["bool", "uint8"])
def test_masks_are_not_supported(mask: str) -> None:
    case = LiveCase(
        INDEX,
        [(random_bits((5, 3)), [random_bits(5, mask)])],
        lambda *_: np.zeros((1, 3), np.uint32),
    )
    with pytest.raises(UnsupportedError, match="is a mask"):
        lowered(case)


F32 = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        (GATHER, (random_bits((5, 3)), 0, indices(5, (2, 4))), "do not fit"),
        (GATHER, (random_bits((5, 3)), 0, indices(5, 2)), "do not fit"),
        (GATHER, (random_bits((5, 3)), 2, indices(5, (2, 2))), "dim 2 is outside"),
        (GATHER, (random_bits(3), 0, F32), "not float32"),
        (INDEX, (random_bits((5, 3)), [indices(5, 2)] * 3), "3 indices for rank 2"),
        (INDEX, (random_bits((5, 3)), [indices(5, 2), indices(3, 3)]), "do not broadcast"),
        (INDEX, (random_bits((5, 3)), [None, None]), "no index tensor"),
        (SELECT, (random_bits((5, 3)), 0, indices(5, (2, 2))), "indices have rank 2"),
        (EMBEDDING, (random_bits(5), indices(5, 2)), "the table has rank 1"),
    ],
)
def test_refuses(op: str, args: tuple[Any, ...], message: str) -> None:
    case = LiveCase(op, [args], lambda *_: np.zeros((1,), np.uint32))
    with pytest.raises(GraphError, match=message):
        lowered(case)
