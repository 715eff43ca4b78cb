"""Views in the memory plan: which share the memory of their source, and which are copies."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.memory_plans import (
    CLONE,
    MUTATE,
    RELU,
    VIEW,
    add,
    check,
    mutating_op,
    relu,
    view,
)
from support.write.pte_writer import GraphWriter

# Aliases


def test_a_view_shares_the_memory_of_its_source() -> None:
    g = GraphWriter()
    x = g.tensor((2, 3))
    a = relu(g, x)
    b = view(g, a, 6)
    c = relu(g, b)
    g.inputs(x)
    g.outputs(c)
    _, plan = check(g)
    assert plan.aliased_calls == {1}
    assert plan.slot_of[a] == plan.slot_of[b]


def test_a_chain_of_views_shares_one_memory() -> None:
    g = GraphWriter()
    x = g.tensor((2, 3))
    value = first = relu(g, x)
    for dims in ((6,), (3, 2), (1, 6), (6, 1)):
        value = view(g, value, *dims)
    out = relu(g, value)
    g.inputs(x)
    g.outputs(out)
    _, plan = check(g)
    assert plan.aliased_calls == {1, 2, 3, 4}
    assert plan.slot_of[value] == plan.slot_of[first]


def test_a_view_outlives_the_exporters_plan_for_its_source() -> None:
    """The exporter takes the view for a copy and gives the source's memory to the next value."""
    g = GraphWriter()
    x = g.tensor((4,), mem_obj_id=0)
    a = g.op(RELU, x, g.tensor((4,), mem_obj_id=1))
    v = g.op(VIEW, a, g.int_list([2, 2]), g.tensor((2, 2), mem_obj_id=2))
    b = g.op(RELU, x, g.tensor((4,), mem_obj_id=1))
    c = g.op(RELU, b, g.tensor((4,), mem_obj_id=1))
    w = g.op(VIEW, c, g.int_list([2, 2]), g.tensor((2, 2), mem_obj_id=3))
    out = add(g, v, w)
    g.inputs(x)
    g.outputs(out)
    _, plan = check(g)
    assert plan.slot_of[b] != plan.slot_of[v]


def test_a_view_of_an_input_that_is_an_output() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    v = view(g, x, 2, 2)
    y = relu(g, relu(g, relu(g, x)))
    g.inputs(x)
    g.outputs(v, y, x)
    _, plan = check(g)
    assert plan.slot_of[v] == plan.slot_of[x]
    assert plan.slot_of[y] != plan.slot_of[x]


def test_a_view_of_a_constant_keeps_its_buffer() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    w = g.tensor((2, 2), constant=np.ones((2, 2), np.float32))
    v = view(g, w, 4)
    packed = view(g, g.prepack(w), 4)
    out = add(g, add(g, x, v), packed)
    g.inputs(x)
    g.outputs(out)
    _, plan = check(g)
    assert plan.slots[plan.slot_of[v]].dedicated
    assert plan.slots[plan.slot_of[packed]].dedicated
    assert plan.slot_of[v] != plan.slot_of[packed]


@pytest.mark.parametrize("mutated", ["source", "view", "root"])
def test_a_view_of_a_mutated_value_is_a_copy(mutated: str) -> None:
    with mutating_op():
        g = GraphWriter()
        x = g.tensor((4,))
        a = relu(g, x)
        b = view(g, a, 2, 2)
        c = view(g, b, 4)
        target = {"source": b, "view": c, "root": a}[mutated]
        other = view(g, x, *g.shapes[target][0])
        g.op(MUTATE, target, other, g.tensor(g.shapes[target][0]))
        out = add(g, add(g, a, c), view(g, b, 4))
        g.inputs(x)
        g.outputs(out)
        _, plan = check(g)
        assert plan.slots[plan.slot_of[target]].dedicated


def test_views_of_what_nothing_mutates_share_memory_beside_a_cache() -> None:
    with mutating_op():
        g = GraphWriter()
        x = g.tensor((4,))
        state = g.tensor((4,), constant=np.zeros(4, np.float32))
        a = relu(g, x)
        v = view(g, a, 2, 2)
        g.op(MUTATE, state, a, g.tensor((4,)))
        out = add(g, view(g, v, 4), state)
        g.inputs(x)
        g.outputs(out)
        _, plan = check(g)
        assert plan.slot_of[v] == plan.slot_of[a]
        assert len(plan.aliased_calls) == 2


def test_a_mutated_constant_keeps_its_state() -> None:
    with mutating_op():
        g = GraphWriter()
        x = g.tensor((4,))
        state = g.tensor((4,), constant=np.zeros(4, np.float32), mem_obj_id=0)
        before = view(g, state, 2, 2)
        g.op(MUTATE, state, x, g.tensor((4,), mem_obj_id=0))
        out = add(g, view(g, before, 4), state)
        g.inputs(x)
        g.outputs(out)
        _, plan = check(g)
        assert plan.slots[plan.slot_of[state]].dedicated
        assert plan.slot_of[before] != plan.slot_of[state]


def test_a_view_is_a_copy_where_its_output_is_written_again() -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    v = g.tensor((4,))
    g.op(CLONE, x, g.null(), v)
    g.op(CLONE, y, g.null(), v)
    g.inputs(x, y)
    g.outputs(v, x)
    _, plan = check(g)
    assert plan.aliased_calls == frozenset()


def test_a_view_is_a_copy_where_an_op_writes_to_the_input_later() -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    v = view(g, x, 2, 2)
    g.op(RELU, y, x)
    out = add(g, view(g, v, 4), x)
    g.inputs(x, y)
    g.outputs(out)
    check(g)


def test_a_view_is_a_copy_where_an_op_writes_to_the_constant_later() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    w = g.tensor((4,), constant=np.ones(4, np.float32))
    v = view(g, w, 2, 2)
    g.op(RELU, x, w)
    out = add(g, view(g, v, 4), w)
    g.inputs(x)
    g.outputs(out)
    check(g)


def test_a_cast_that_changes_the_stored_type_is_no_alias() -> None:
    g = GraphWriter()
    x = g.tensor((4,), "int64")
    same = g.op("aten._to_copy.default", x, g.tensor((4,), "int32"))
    other = g.op("aten._to_copy.default", x, g.tensor((4,), "float32"))
    g.inputs(x)
    g.outputs(same, other)
    _, plan = check(g)
    assert plan.aliased_calls == {0}
    assert plan.slot_of[other] != plan.slot_of[x]
