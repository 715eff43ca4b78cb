"""Relower guards: a call whose shapes stay while its SymInts move is not lowered again."""

from __future__ import annotations

import pytest

from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.records import RelowerGuard

SIZE, LENGTH = 10, 3


class Table:
    """Rows first to last of a table, and one row of it; both ends are given."""

    def __init__(self) -> None:
        g = GraphWriter()
        self.table = g.tensor((SIZE, 4))
        self.first, self.last, self.row = g.symint(0), g.symint(LENGTH), g.symint(0)
        ends = (g.int(0), self.first, self.last, g.int(1))
        self.part = g.op("aten.slice_copy.Tensor", self.table, *ends, g.tensor((SIZE, 4)))
        one = (g.int(0), self.row)
        self.one = g.op("aten.select_copy.int", self.table, *one, g.tensor((4,)))
        g.inputs(self.table, self.first, self.last, self.row)
        g.outputs(self.part, self.one)
        self.planner, self.live = make_planner(build_graph(g))
        self.planner.lower_all()
        self.move(0, LENGTH)

    def move(self, first: int, last: int, row: int = 0) -> int:
        """Set the SymInts; return how many calls were lowered for it."""
        before = self.planner.lowerings
        self.live.set_symint(self.first, first)
        self.live.set_symint(self.last, last)
        self.live.set_symint(self.row, row)
        self.planner.propagate_resize()
        return self.planner.lowerings - before

    @property
    def length(self) -> int:
        return self.live.cur_dims(self.part)[0]


def test_a_part_that_moves_is_not_lowered_again() -> None:
    table = Table()
    work = table.planner.work()
    for first in (1, 5, SIZE - LENGTH, 0):
        assert table.move(first, first + LENGTH, row=first) == 0
        assert table.length == LENGTH
    assert table.planner.work() == work


@pytest.mark.parametrize(
    ("first", "last", "length"),
    [(1, 1 + LENGTH + 1, LENGTH + 1), (SIZE - 2, SIZE + 1, 2), (-2, 1, 0), (4, 4, 0)],
)
def test_a_part_of_another_length_is(first: int, last: int, length: int) -> None:
    table = Table()
    assert table.move(first, last) == 1
    assert table.length == length
    assert table.move(0, LENGTH) == 1
    assert table.length == LENGTH


def test_a_row_from_behind_is_lowered() -> None:
    table = Table()
    assert table.move(0, LENGTH, row=3) == 0
    assert table.move(0, LENGTH, row=-1) == 1


def test_another_size_of_what_is_cut_is_lowered_even_if_the_ends_suit() -> None:
    table = Table()
    table.live.set_cur_dims(table.table, (SIZE - 1, 4))
    assert table.move(2, 2 + LENGTH) == 2
    assert table.move(SIZE - LENGTH, SIZE) == 1  # clamped now
    assert table.length == LENGTH - 1


def test_an_end_that_does_not_move_along_is_lowered() -> None:
    g = GraphWriter()
    table, first = g.tensor((SIZE, 4)), g.symint(0)
    ends = (g.int(0), first, g.int(SIZE), g.int(1))
    out = g.op("aten.slice_copy.Tensor", table, *ends, g.tensor((SIZE, 4)))
    g.inputs(table, first)
    g.outputs(out)
    planner, live = make_planner(build_graph(g))
    planner.lower_all()
    live.set_symint(first, 4)
    planner.propagate_resize()
    assert live.cur_dims(out) == (SIZE - 4, 4)


def test_a_reason_to_lower_again_stays_when_another_value_asks_for_less() -> None:
    """The size changes first, then the ends; both are results of earlier calls."""
    g = GraphWriter()
    x, given = g.tensor((SIZE, 4)), g.symint(0)
    table = g.op("aten.relu.default", x, g.tensor((SIZE, 4)))
    first, last = g.symint(0), g.symint(LENGTH)
    g.op("add", given, g.int(0), first)
    g.op("add", given, g.int(LENGTH), last)
    ends = (g.int(0), first, last, g.int(1))
    part = g.op("aten.slice_copy.Tensor", table, *ends, g.tensor((SIZE, 4)))
    g.inputs(x, given)
    g.outputs(part)
    planner, live = make_planner(build_graph(g))
    planner.lower_all()
    before = planner.work()[-1]
    live.set_cur_dims(x, (SIZE, 2))
    live.set_symint(given, 1)
    planner.propagate_resize()
    assert live.cur_dims(part) == (LENGTH, 2)
    assert planner.work()[-1] != before


def test_steady() -> None:
    guard = RelowerGuard(1, 0, 4, follower=2, distance=3)
    assert guard.covers(1)
    assert guard.covers(2)
    assert not guard.covers(0)
    for values, holds in (((0, 3), True), ((4, 7), True), ((5, 8), False), ((1, 5), False)):
        assert guard.holds(dict(zip((1, 2), values, strict=True)).__getitem__) == holds
