"""Ranges of positions in which a plan serves: as far as its calls stay the same, and no further."""

from __future__ import annotations

import pytest

from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.engine.dtypes import INT32_MAX, INT32_MIN
from webpte.engine.graph.live_state import LiveState
from webpte.engine.plan.planner import Planner
from webpte.engine.plan.position_range import PositionRange, position_range

SIZE, LENGTH, START = 10, 3, 2


class Moving:
    """A slice of a table from the position on, with an end that is computed from it."""

    def __init__(self, *steps: tuple[str, int], swapped: bool = False) -> None:
        """`steps` are operators with an integer, one after the other, on the position."""
        g = GraphWriter()
        table, self.position = g.tensor((SIZE, 4)), g.symint(0)
        self.computed = [self.position]
        for name, number in steps:
            given = (self.computed[-1], g.int(number))
            self.computed.append(g.op(name, *(given[::-1] if swapped else given), g.symint(0)))
        ends = (g.int(0), self.position, self.computed[-1], g.int(1))
        part = g.op("aten.slice_copy.Tensor", table, *ends, g.tensor((SIZE, 4)))
        g.inputs(table, self.position)
        g.outputs(part)
        self.planner, self.live = make_planner(build_graph(g))
        self.planner.lower_all()
        self.move(START)

    def move(self, position: int) -> int:
        """Set the position; return how many calls were lowered for it."""
        before = self.planner.lowerings
        self.live.set_symint(self.position, position)
        self.planner.propagate_resize()
        return self.planner.lowerings - before

    def range(self, position: int = START) -> PositionRange | None:
        return position_range(self.planner, self.live, position, {self.position})


@pytest.mark.parametrize("steps", [[("add", LENGTH)], [("add", LENGTH + 2), ("sub", 2)]])
def test_the_range_is_where_nothing_is_lowered(steps: list[tuple[str, int]]) -> None:
    moving = Moving(*steps)
    found = moving.range()
    assert found is not None
    assert (found.low, found.high) == (0, SIZE - LENGTH)
    distances = [0, LENGTH] if len(steps) == 1 else [0, LENGTH + 2, LENGTH]
    assert found.offsets == dict(zip(moving.computed, distances, strict=True))
    for position in (found.low, found.high, START):
        assert moving.move(position) == 0
        assert moving.range(position) == found
        assert {i: moving.live.symint(i) - position for i in moving.computed} == found.offsets
    assert moving.move(found.high + 1) > 0


def test_a_sum_in_the_other_order_moves_along() -> None:
    found = Moving(("add", LENGTH), swapped=True).range()
    assert found is not None
    assert found.high == SIZE - LENGTH


@pytest.mark.parametrize(
    ("steps", "swapped"),
    [
        ([("mul", 2)], False),
        ([("floordiv", 2), ("add", LENGTH)], False),
        ([("sub", SIZE)], True),
    ],
)
def test_what_does_not_move_along_has_no_range(steps: list[tuple[str, int]], swapped: bool) -> None:
    assert Moving(*steps, swapped=swapped).range() is None


def test_a_fixed_end_has_no_range() -> None:
    g = GraphWriter()
    table, position = g.tensor((SIZE, 4)), g.symint(0)
    ends = (g.int(0), position, g.int(SIZE), g.int(1))
    part = g.op("aten.slice_copy.Tensor", table, *ends, g.tensor((SIZE, 4)))
    g.inputs(table, position)
    g.outputs(part)
    planner, live = make_planner(build_graph(g))
    planner.lower_all()
    assert position_range(planner, live, 0, {position}) is None


def test_a_part_that_is_clamped_has_no_range() -> None:
    moving = Moving(("add", LENGTH))
    moving.move(SIZE - 1)
    assert moving.range(SIZE - 1) is None


def difference() -> tuple[Planner, LiveState, int, int]:
    """Plan a row of a table, by the difference of two SymInts that both follow the position."""
    g = GraphWriter()
    table, position = g.tensor((SIZE, 4)), g.symint(0)
    later = g.op("add", position, g.int(7), g.symint(0))
    row = g.op("sub", later, position, g.symint(0))
    one = g.op("aten.select_copy.int", table, g.int(0), row, g.tensor((4,)))
    g.inputs(table, position)
    g.outputs(one)
    planner, live = make_planner(build_graph(g))
    planner.lower_all()
    live.set_symint(position, START)
    planner.propagate_resize()
    return planner, live, position, later


def test_a_difference_stays_and_numbers_fit_into_32_bits() -> None:
    planner, live, position, later = difference()
    found = position_range(planner, live, START, {position})
    assert found == PositionRange(INT32_MIN, INT32_MAX - 7, {position: 0, later: 7})


def test_without_symints_every_position_is_served() -> None:
    planner, live, *_ = difference()
    assert position_range(planner, live, 5, ()) == PositionRange(INT32_MIN, INT32_MAX, {})
