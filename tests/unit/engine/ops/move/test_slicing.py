"""The slicing family: references, starts that stay live, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, Sym, lowered, random_bits
from support.cases.move.slicing_cases import selected, sliced, split
from support.graphs.graphs import load, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.ops.core.records import SymIntBound, SymIntUniform
from webpte.engine.plan.planner import Planner
from webpte.errors import ExecutionError, GraphError

SLICE, SELECT = "aten.slice_copy.Tensor", "aten.select_copy.int"
SPLIT = "aten.split_with_sizes_copy.default"


def symints(planner: Planner) -> list[int]:
    return [i for i, v in enumerate(planner._graph.values) if isinstance(v, SymIntValue)]


@pytest.mark.parametrize("shape", [(64, 8), (64, 3), (64, 20, 17)], ids=str)
def test_records_stay_equal_when_only_the_start_moves(shape: tuple[int, ...]) -> None:
    """One step of a language model: another position, and not one lowering changes."""
    case = LiveCase(SLICE, [(random_bits(shape), 0, Sym(0), Sym(5), 1)], sliced)
    planner, live = lowered(case)
    start, end = symints(planner)
    (before,) = planner.dispatches()
    assert SymIntUniform(start) in before.bindings
    for position in (1, 7, 59):
        planner.changed = False
        live.set_symint(start, position)
        live.set_symint(end, position + 5)
        planner.propagate_resize()
        assert not planner.changed
    live.set_symint(end, 59 + 3)
    planner.propagate_resize()
    assert planner.changed
    assert planner.dispatches() != (before,)


def test_a_moving_tile_keeps_its_records() -> None:
    """A slice along the innermost dim of a large matrix, read by columns."""
    case = LiveCase(SELECT, [(random_bits((40, 40)), 1, Sym(3))], selected)
    planner, live = lowered(case)
    (index,) = symints(planner)
    before = planner.dispatches()
    live.set_symint(index, 30)
    planner.propagate_resize()
    assert planner.dispatches() == before


def test_a_fixed_start_is_no_live_one() -> None:
    case = LiveCase(SLICE, [(random_bits((9, 4)), 0, 2, 5, 1)], sliced)
    (dispatch,) = lowered(case)[0].dispatches()
    assert not any(isinstance(binding, SymIntUniform) for binding in dispatch.bindings)


def select_at(index: int) -> Array:
    """Selects from a dim of size 5 at a SymInt."""
    case = LiveCase(SELECT, [(random_bits((5, 3)), 0, Sym(0))], selected)

    async def run() -> Any:
        g = GraphWriter()
        x, at, out = g.tensor((5, 3)), g.tensor((1,), "int32"), g.tensor((3,))
        symint = g.op("et_vk.select_as_symint.default", at, g.int(0), g.int(0), g.symint(0))
        g.op(SELECT, x, g.int(0), symint, out)
        g.inputs(x, at)
        g.outputs(out)
        async with await load(g) as program:
            return (await program.forward(case.steps[0][0], np.array([index], np.int32)))[0]

    return np.asarray(wait(run()))


@pytest.mark.parametrize("index", [5, -6, 100])
def test_a_live_index_outside_is_refused(index: int) -> None:
    with pytest.raises(ExecutionError, match=r"selects from a dim of size 5.*not in -5 to 4"):
        select_at(index)


def test_a_live_index_is_bounded_on_the_host() -> None:
    planner, _ = lowered(LiveCase(SELECT, [(random_bits((5, 3)), 0, Sym(0))], selected))
    (bound,) = (r for r in planner.calls[-1].records if isinstance(r, SymIntBound))
    assert (bound.low, bound.high) == (-5, 4)


@pytest.mark.parametrize(
    ("op", "shape", "args", "message"),
    [
        (SLICE, (5,), (0, 1, 3, 0), "step is 0"),
        (SLICE, (5,), (0, 1, 3, -1), "step is -1"),
        (SLICE, (), (0, 0, 1, 1), "rank 0"),
        (SLICE, (5,), (1, 0, 1, 1), "dim 1 is outside"),
        (SLICE, (5,), (0, 0.5, 1, 1), "must be an integer"),
        (SELECT, (5,), (0, 5), "not -5 to 4"),
        (SELECT, (5,), (0, -6), "not -5 to 4"),
        (SELECT, (0, 3), (0, 0), "not 0 to -1"),
        (SELECT, (), (0, 0), "rank 0"),
    ],
)
def test_refuses(op: str, shape: tuple[int, ...], args: tuple[Any, ...], message: str) -> None:
    kept = shape[1:] if op == SELECT else shape
    case = LiveCase(op, [(random_bits(shape), *args)], lambda *_: np.zeros(kept, np.uint32))
    with pytest.raises(GraphError, match=message):
        lowered(case)


@pytest.mark.parametrize(
    ("sizes", "outputs", "message"),
    [
        ([2, 2], 2, "does not split a dim of size 5"),
        ([6, -1], 2, "does not split"),
        ([2, 3], 1, "2 parts for 1 outputs"),
    ],
)
def test_refuses_to_split(sizes: list[int], outputs: int, message: str) -> None:
    nothing = [np.zeros((1, 2), np.uint32)] * outputs
    case = LiveCase(SPLIT, [(random_bits((5, 2)), sizes, 0)], lambda *_: nothing)
    with pytest.raises(GraphError, match=message):
        lowered(case)


def test_an_empty_part_costs_nothing() -> None:
    case = LiveCase(SPLIT, [(random_bits((5, 2)), [0, 5, 0], 0)], split)
    assert len(lowered(case)[0].dispatches()) == 1
