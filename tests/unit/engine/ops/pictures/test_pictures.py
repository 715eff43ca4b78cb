"""Operators of pictures: refused arguments, and the kernels that a picture needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.pictures.picture_planes_cases import PLANES, picture
from support.cases.pictures.scale_pixels_cases import SCALE, drawn
from support.cases.row_cases import RowCase
from support.graphs.graphs import make_planner, read_graph
from webpte.engine.ops.core.records import Dispatch
from webpte.errors import GraphError

STARTS, WEIGHTS = np.zeros(3, np.int32), np.zeros((3, 2), np.int32)
TABLE = np.zeros((3, 257), np.float32)


def lowered(op: str, out: tuple[int, ...], *args: Any) -> tuple[Dispatch, ...]:
    dtype = "uint8" if op == SCALE else "float32"
    case = RowCase(op, args, lambda *_: np.zeros(out), outs=(dtype,))
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    return planner.dispatches()


def test_one_kernel_for_a_dim() -> None:
    (one,) = lowered(SCALE, (7, 29, 4), *drawn(7, 11, 29, 5, 1), 1)
    assert (one.kernel, one.grid) == ("scale_pixels", (-(-7 * 29 // 64), 1, 1))
    (one,) = lowered(PLANES, (3, 9, 8), picture(5, 7), TABLE, -1, 0, 9, 8)
    assert (one.kernel, one.grid) == ("picture_planes", (2, 1, 1))


@pytest.mark.parametrize(
    ("pixels", "starts", "weights", "dim", "said"),
    [
        (picture(4, 5), STARTS, WEIGHTS, 2, "not dim 2"),
        (picture(4, 5)[:, :, :3], STARTS, WEIGHTS, 0, r"not dim 0 of uint8 \[4, 5, 3\]"),
        (picture(4, 5).astype(np.int32), STARTS, WEIGHTS, 0, "of int32"),
        (picture(4, 5), STARTS[:2], WEIGHTS, 0, r"not \[2\] and \[3, 2\]"),
        (picture(4, 5), STARTS, WEIGHTS.astype(np.float32), 0, "int32 starts"),
        (picture(0, 5), STARTS, WEIGHTS, 0, "without pixels"),
    ],
)
def test_what_cannot_be_scaled_is_said(
    pixels: Any, starts: Any, weights: Any, dim: int, said: str
) -> None:
    with pytest.raises(GraphError, match=said):
        lowered(SCALE, (3, 5, 4), pixels, starts, weights, dim)


@pytest.mark.parametrize(
    ("pixels", "table", "height", "said"),
    [
        (picture(4, 5)[:, :, :3], TABLE, 2, r"not uint8 \[4, 5, 3\]"),
        (picture(4, 5), TABLE[:, :256], 2, r"not \[3, 256\]"),
        (picture(4, 5), TABLE, -2, "-2 by 3 pixels"),
    ],
)
def test_what_has_no_planes_is_said(pixels: Any, table: Any, height: int, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        lowered(PLANES, (3, 2, 3), pixels, table, 0, 0, height, 3)
