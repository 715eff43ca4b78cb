"""Live dims and SymInts: dirty only on change, never above the maximum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.graphs.graphs import build_graph
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.errors import GraphError, ResizeError, ValueKindError


class Some:
    """A graph with a tensor [4, 6], a rank-0 one, a SymInt 7 and an int."""

    def __init__(self) -> None:
        g = GraphWriter()
        self.x = g.tensor((4, 6))
        self.scalar = g.tensor(())
        self.n = g.symint(7)
        self.five = g.int(5)
        g.inputs(self.x)
        g.outputs(self.x)
        self.graph = build_graph(g)
        self.live = LiveState(self.graph)


def test_starts_as_the_file_says_with_nothing_dirty() -> None:
    some = Some()
    assert some.live.cur_dims(some.x) == (4, 6)
    assert some.live.cur_dims(some.scalar) == ()
    assert some.live.symint(some.n) == 7
    assert some.live.dirty == frozenset()


def test_dims_are_dirty_only_when_they_change() -> None:
    some = Some()
    some.live.set_cur_dims(some.x, (4, 6))
    some.live.set_cur_dims(some.scalar, ())
    assert some.live.dirty == frozenset()
    some.live.set_cur_dims(some.x, (2, 6))
    assert some.live.take_dirty() == {some.x}
    some.live.set_cur_dims(some.x, (2, 6))
    assert some.live.dirty == frozenset()
    some.live.set_cur_dims(some.x, (4, 6))
    assert some.live.dirty == {some.x}


def test_symints_are_dirty_only_when_they_change() -> None:
    some = Some()
    some.live.set_symint(some.n, 7)
    assert some.live.dirty == frozenset()
    some.live.set_symint(some.n, 8)
    assert some.live.take_dirty() == {some.n}
    some.live.set_symint(some.n, 8)
    assert some.live.take_dirty() == set()
    assert some.live.symint(some.n) == 8


def test_the_graph_does_not_change() -> None:
    some = Some()
    some.live.set_cur_dims(some.x, (1, 1))
    some.live.set_symint(some.n, -3)
    assert some.graph.tensor(some.x).dims == (4, 6)
    assert some.graph.symint(some.n).value == 7
    assert LiveState(some.graph).cur_dims(some.x) == (4, 6)


@pytest.mark.parametrize("dims", [(4,), (4, 6, 1), ()])
def test_the_rank_stays(dims: tuple[int, ...]) -> None:
    some = Some()
    with pytest.raises(ResizeError, match=rf"value {some.x} has rank 2, not {len(dims)}"):
        some.live.set_cur_dims(some.x, dims)
    assert some.live.cur_dims(some.x) == (4, 6)
    assert not some.live.dirty


@pytest.mark.parametrize("dims", [(6, 4), (8, 3), (1, 24), (24, 1), (5, 2), (0, 99)])
def test_the_number_of_elements_is_the_bound(dims: tuple[int, ...]) -> None:
    """A dim may be larger than it was exported with if there is memory for it."""
    some = Some()
    some.live.set_cur_dims(some.x, dims)
    assert some.live.cur_dims(some.x) == dims


@pytest.mark.parametrize("dims", [(5, 6), (4, 7), (-1, 6), (-4, -6), (25, 1), (0, 2**31)])
def test_the_maximum_holds(dims: tuple[int, ...]) -> None:
    some = Some()
    with pytest.raises(ResizeError, match=r"does not fit into its maximum \[4, 6\]") as caught:
        some.live.set_cur_dims(some.x, dims)
    assert str(list(dims)) in str(caught.value)
    assert some.live.cur_dims(some.x) == (4, 6)
    assert not some.live.dirty


@pytest.mark.parametrize("dims", [(0, 6), (4, 0), (0, 0)])
def test_empty_is_a_size(dims: tuple[int, ...]) -> None:
    some = Some()
    some.live.set_cur_dims(some.x, dims)
    assert some.live.cur_dims(some.x) == dims


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**40])
def test_symints_have_32_bits(value: int) -> None:
    some = Some()
    with pytest.raises(ResizeError, match=rf"SymInt value {some.n}: {value} does not fit"):
        some.live.set_symint(some.n, value)
    assert some.live.symint(some.n) == 7


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), 0])
def test_symints_take_all_of_32_bits(value: int) -> None:
    some = Some()
    some.live.set_symint(some.n, value)
    assert some.live.symint(some.n) == value


def test_the_wrong_kind_is_refused_by_name() -> None:
    some = Some()
    with pytest.raises(ValueKindError, match=rf"value {some.x} is a tensor, not a SymInt"):
        some.live.symint(some.x)
    with pytest.raises(ValueKindError, match=rf"value {some.five} is an int, not a SymInt"):
        some.live.set_symint(some.five, 3)
    with pytest.raises(ValueKindError, match=rf"value {some.n} is a SymInt, not a tensor"):
        some.live.cur_dims(some.n)
    with pytest.raises(ValueKindError, match=rf"value {some.n} is a SymInt, not a tensor"):
        some.live.set_cur_dims(some.n, (1,))
    with pytest.raises(GraphError, match="value 99 does not exist"):
        some.live.cur_dims(99)


def test_going_back() -> None:
    some = Some()
    some.live.set_cur_dims(some.x, (2, 6))
    before = some.live.snapshot()
    some.live.set_cur_dims(some.x, (1, 1))
    some.live.set_symint(some.n, 1)
    some.live.restore(before)
    assert some.live.cur_dims(some.x) == (2, 6)
    assert some.live.symint(some.n) == 7
    assert not some.live.dirty
    some.live.set_cur_dims(some.x, (3, 3))
    assert before.cur_dims[some.x] == (2, 6), "a snapshot is not live"


# One call that fails


def changed() -> Some:
    """[3, 6] and 8 before `begin`, [1, 1] and 9 after it."""
    some = Some()
    some.live.set_cur_dims(some.x, (3, 6))
    some.live.set_symint(some.n, 8)
    some.live.take_dirty()
    some.live.begin()
    some.live.set_cur_dims(some.x, (1, 1))
    some.live.set_symint(some.n, 9)
    return some


def test_what_changed_since_the_beginning_is_taken_back() -> None:
    some = changed()
    some.live.rollback()
    assert some.live.cur_dims(some.x) == (3, 6)
    assert some.live.symint(some.n) == 8
    assert not some.live.dirty


def test_what_changed_twice_goes_back_to_where_it_was() -> None:
    some = changed()
    some.live.set_cur_dims(some.x, (2, 2))
    some.live.set_symint(some.n, 10)
    some.live.rollback()
    assert some.live.cur_dims(some.x) == (3, 6)
    assert some.live.symint(some.n) == 8


def test_a_switch_is_taken_back() -> None:
    some = changed()
    some.live.begin()
    some.live.restore(LiveState(some.graph).snapshot())
    assert some.live.cur_dims(some.x) == (4, 6)
    some.live.rollback()
    assert some.live.cur_dims(some.x) == (1, 1)
    assert some.live.symint(some.n) == 9


def test_a_switch_is_taken_back_with_what_came_before_and_after_it() -> None:
    some = changed()
    first = LiveState(some.graph).snapshot()
    some.live.restore(first)
    assert some.live.cur_dims(some.x) == (4, 6)
    assert some.live.symint(some.n) == 7
    some.live.set_cur_dims(some.x, (2, 2))
    some.live.set_symint(some.n, 10)
    some.live.rollback()
    assert some.live.cur_dims(some.x) == (3, 6)
    assert some.live.symint(some.n) == 8
    assert first.cur_dims[some.x] == (4, 6)


def test_what_was_taken_back_is_not_taken_back_again() -> None:
    some = changed()
    some.live.rollback()
    some.live.begin()
    some.live.set_cur_dims(some.x, (2, 2))
    some.live.begin()
    some.live.rollback()
    assert some.live.cur_dims(some.x) == (2, 2)


def test_an_exact_tensor_has_no_other_shape() -> None:
    some = Some()
    values = list(some.graph.values)
    values[some.x] = replace(some.graph.tensor(some.x), exact=True)
    live = LiveState(Graph(tuple(values), (), (some.x,), (some.x,)))
    for dims in ((2, 6), (6, 4), (0, 6)):
        with pytest.raises(ResizeError, match=r"output has exactly \[4, 6\]"):
            live.set_cur_dims(some.x, dims)
    live.set_cur_dims(some.x, (4, 6))
    assert not live.dirty
