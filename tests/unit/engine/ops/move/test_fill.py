"""The fill family: references, starts that stay live, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, Sym, check_reference, lowered, random_bits
from support.cases.move.fill_cases import ARANGE, ascending
from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.ops.core.records import SymIntBound
from webpte.errors import ExecutionError, GraphError

FULL, GRID = "aten.full.default", "et_vk.grid_priors.default"
NULLS = (None,) * 4


def arange(*ends: Any, out: str = "int32") -> LiveCase:
    return LiveCase(ARANGE, [(*ends, *NULLS)], ascending, out=out, exact=False)


def test_records_stay_equal_when_only_the_start_moves() -> None:
    planner, live = lowered(arange(Sym(0), Sym(5), 1))
    start, end = (i for i, v in enumerate(planner._graph.values) if isinstance(v, SymIntValue))
    planner.changed = False
    live.set_symint(start, 12)
    live.set_symint(end, 17)
    planner.propagate_resize()
    assert not planner.changed
    live.set_symint(end, 16)
    planner.propagate_resize()
    assert planner.changed


def test_a_live_end_is_bounded_on_the_host() -> None:
    planner, _ = lowered(arange(3, Sym(5), 1))
    (bound,) = (r for r in planner.calls[-1].records if isinstance(r, SymIntBound))
    assert bound.low == 3
    downwards, _ = lowered(arange(3, Sym(-5), -1))
    (bound,) = (r for r in downwards.calls[-1].records if isinstance(r, SymIntBound))
    assert bound.high == 3


@pytest.mark.parametrize("ends", [(3, Sym(2), 1), (Sym(3), Sym(2), 1), (-3, Sym(2), -1)])
def test_a_live_end_on_the_wrong_side_is_refused(ends: tuple[Any, ...]) -> None:
    with pytest.raises(ExecutionError, match="away from its end"):
        check_reference(arange(*ends))


@pytest.mark.parametrize(
    ("op", "args", "out", "message"),
    [
        (FULL, ([2, -1], 1, *NULLS), "float32", "is not a shape"),
        (FULL, ([2], 256, *NULLS), "uint8", "256 does not fit into uint8"),
        (FULL, ([2], 128, *NULLS), "int8", "128 does not fit into int8"),
        (FULL, ([2], 2**31, *NULLS), "int32", "does not fit into int32"),
        (FULL, ([2], float("inf"), *NULLS), "int32", "inf does not fit into int32"),
        (ARANGE, (0, 5, 0, *NULLS), "int32", "steps of 0"),
        (ARANGE, (0, 5, 0.5, *NULLS), "int32", "steps of 0"),
        (ARANGE, (5, 0, 1, *NULLS), "int32", "away from its end: 0"),
        (ARANGE, (0, 5, -1, *NULLS), "float32", "away from its end: 5"),
        (ARANGE, (2**31, 2**31 + 2, 1, *NULLS), "int32", "cannot count from"),
        (GRID, (random_bits((3,)), 2, 0.5), "float32", "no height and width"),
    ],
)
def test_refuses(op: str, args: tuple[Any, ...], out: str, message: str) -> None:
    case = LiveCase(op, [args], lambda *_: np.zeros((2,)), out=out, exact=False)
    with pytest.raises(GraphError, match=message):
        lowered(case)
