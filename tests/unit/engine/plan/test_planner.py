"""Resize hooks: they fire once per change, in order; a graph that cannot settle is an error."""

from __future__ import annotations

from contextlib import suppress

import pytest

from support.graphs.graphs import build_graph, chain, make_planner, temporary_op
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import Target
from webpte.engine.plan.memory_plan import MemoryPlan, plan_memory
from webpte.engine.plan.planner import Planner
from webpte.engine.rewrite.validate import resolve_ops
from webpte.errors import (
    ResizeError,
)

RELU, ADD = "aten.relu.default", "aten.add.Tensor"


def diamond() -> tuple[GraphWriter, dict[str, int]]:
    """x -> a -> (b, c) -> d, and y -> e apart from it."""
    g = GraphWriter()
    x, y = g.tensor((8, 3)), g.tensor((5,))
    a = g.op(RELU, x, g.tensor((8, 3)))
    e = g.op(RELU, y, g.tensor((5,)))
    b = g.op("aten.neg.default", a, g.tensor((8, 3)))
    c = g.op("aten.exp.default", a, g.tensor((8, 3)))
    d = g.op(ADD, b, c, g.int(1), g.tensor((8, 3)))
    g.inputs(x, y)
    g.outputs(d, e)
    return g, {"x": x, "y": y, "a": a, "b": b, "c": c, "d": d, "e": e}


def lowered(g: GraphWriter) -> tuple[Planner, LiveState]:
    planner, live = make_planner(build_graph(g))
    planner.lower_all()
    return planner, live


# Hooks


def test_a_static_graph_fires_no_hook() -> None:
    planner, live = lowered(diamond()[0])
    before = planner.dispatches()
    for _ in range(3):
        planner.propagate_resize()
    assert planner.hooks_fired == 0
    assert planner.lowerings == 5
    assert planner.dispatches() == before
    assert not live.dirty


def test_every_reader_fires_once_per_change() -> None:
    g, ids = diamond()
    planner, live = lowered(g)
    live.set_cur_dims(ids["x"], (2, 3))
    planner.propagate_resize()
    assert planner.hooks_fired == 4, "a, b, c, and d once, though both its inputs changed"
    assert [live.cur_dims(ids[name]) for name in "abcd"] == [(2, 3)] * 4
    assert live.cur_dims(ids["e"]) == (5,)
    planner.propagate_resize()
    assert planner.hooks_fired == 4


def test_an_equal_value_fires_nothing() -> None:
    g, ids = diamond()
    planner, live = lowered(g)
    live.set_cur_dims(ids["x"], (8, 3))
    planner.propagate_resize()
    assert planner.hooks_fired == 0
    live.set_cur_dims(ids["x"], (2, 3))
    planner.propagate_resize()
    live.set_cur_dims(ids["x"], (2, 3))
    planner.propagate_resize()
    assert planner.hooks_fired == 4


def test_a_hook_that_changes_nothing_ends_the_wave() -> None:
    """The size of `b` does not follow `a`: what reads `b` is left alone."""
    with temporary_op(
        "test.pool.default",
        "self: tensor -> tensor",
        shape=lambda args: [(1, 3)],
        lower=lambda args: [],
    ):
        g = GraphWriter()
        x = g.tensor((8, 3))
        a = g.op(RELU, x, g.tensor((8, 3)))
        b = g.op("test.pool.default", a, g.tensor((1, 3)))
        c = g.op(RELU, b, g.tensor((1, 3)))
        g.inputs(x)
        g.outputs(c)
        planner, live = lowered(g)
        live.set_cur_dims(x, (2, 3))
        planner.propagate_resize()
        assert planner.hooks_fired == 2


def test_hooks_fire_in_graph_order() -> None:
    order: list[int] = []

    def shape(args: Args) -> list[tuple[int, ...]]:
        order.append(args.call.index)
        return [args.tensor("self").dims]

    with temporary_op(
        "test.note.default",
        "self: tensor, other: tensor -> tensor",
        shape=shape,
        lower=lambda args: [],
    ):
        g = GraphWriter()
        x, y = g.tensor((8,)), g.tensor((8,))
        values = [x, y]
        for at in range(12):
            pair = (values[-1], values[at // 2])
            values.append(g.op("test.note.default", *pair, g.tensor((8,))))
        g.inputs(x, y)
        g.outputs(values[-1])
        planner, live = lowered(g)
        order.clear()
        live.set_cur_dims(y, (3,))
        live.set_cur_dims(x, (3,))
        planner.propagate_resize()
        assert order == list(range(12))


def test_records_follow_the_live_size() -> None:
    planner, live = lowered(chain(1, dims=(4096,)))
    (full,) = planner.dispatches()
    assert full.grid == (16, 1, 1)
    live.set_cur_dims(0, (257,))
    planner.propagate_resize()
    (small,) = planner.dispatches()
    assert small.grid == (2, 1, 1)
    assert small.params != full.params
    assert (small.kernel, small.types, small.bindings) == (full.kernel, full.types, full.bindings)
    live.set_cur_dims(0, (4096,))
    planner.propagate_resize()
    assert planner.dispatches() == (full,), "shrink, then grow: as before"


def test_an_empty_tensor_dispatches_nothing_and_comes_back() -> None:
    planner, live = lowered(chain(3, dims=(8, 2)))
    live.set_cur_dims(0, (0, 2))
    planner.propagate_resize()
    assert planner.dispatches() == ()
    live.set_cur_dims(0, (8, 2))
    planner.propagate_resize()
    assert len(planner.dispatches()) == 3


def test_a_graph_that_cannot_settle_says_which_ops() -> None:
    """Two ops that feed each other, one of them never content."""
    sizes = iter(range(1, 1000))

    with temporary_op(
        "test.restless.default",
        "self: tensor -> tensor",
        shape=lambda args: [(next(sizes),)],
        lower=lambda args: [],
    ):
        g = GraphWriter()
        x, y = g.tensor((1000,)), g.tensor((1000,))
        g.op("test.restless.default", x, y)
        g.op(RELU, y, x)
        g.inputs(x)
        g.outputs(y)
        planner, live = make_planner(build_graph(g))
        live.set_cur_dims(x, (500,))
        with pytest.raises(ResizeError, match=r"do not settle: op 0 \(test.restless.default\)"):
            planner.propagate_resize()
        assert planner.hooks_fired < 20


def test_a_cycle_that_settles_is_fine() -> None:
    """A value fed back to an earlier op needs another pass, and no more."""
    with temporary_op(
        "test.cap.default",
        "self: tensor -> tensor",
        shape=lambda args: [(min(args.tensor("self").dims[0], 3),)],
        lower=lambda args: [],
    ):
        g = GraphWriter()
        x, y = g.tensor((8,)), g.tensor((8,))
        g.op("test.cap.default", x, y)
        g.op(RELU, y, x)
        g.inputs(x)
        g.outputs(y)
        planner, live = make_planner(build_graph(g))
        live.set_cur_dims(x, (7,))
        planner.propagate_resize()
        assert live.cur_dims(x) == live.cur_dims(y) == (3,)


def test_going_back_lowers_nothing() -> None:
    g, ids = diamond()
    planner, live = lowered(g)
    full = planner.state()
    live.set_cur_dims(ids["x"], (2, 3))
    planner.propagate_resize()
    small, count = planner.state(), planner.lowerings
    planner.restore(full)
    assert live.cur_dims(ids["d"]) == (8, 3)
    full_records = planner.dispatches()
    planner.restore(small)
    assert live.cur_dims(ids["d"]) == (2, 3)
    assert planner.dispatches() != full_records
    planner.propagate_resize()
    assert planner.lowerings == count


def test_a_planner_without_aliases_copies_views() -> None:
    g = GraphWriter()
    x = g.tensor((2, 3))
    v = g.op("aten.view_copy.default", x, g.int_list([6]), g.tensor((6,)))
    g.inputs(x)
    g.outputs(v)
    graph = build_graph(g)
    ops = resolve_ops(graph)
    plan = plan_memory(graph, ops)
    for aliased in (plan.aliased_calls, frozenset[int]()):
        storage = MemoryPlan(plan.slots, plan.slot_of, aliased)
        planner = Planner(graph, LiveState(graph), ops, storage)
        planner.lower_all()
        kernels = [d.kernel for d in planner.dispatches() if isinstance(d, Dispatch)]
        assert kernels == ([] if aliased else ["view"])


def test_a_call_that_resizes_its_own_input_runs_until_it_settles() -> None:
    for low, settles in ((4, True), (1, False)):
        with temporary_op(
            "test.halve.default",
            "self: tensor -> tensor",
            shape=lambda args, low=low: [(max(args.tensor("self").dims[0] // 2, low),)],
            lower=lambda args: [],
        ):
            g = GraphWriter()
            x = g.tensor((8,))
            g.op("test.halve.default", x, x)
            g.inputs(x)
            g.outputs(x)
            planner, live = make_planner(build_graph(g))
            live.set_cur_dims(x, (7,))
            if settles:
                planner.propagate_resize()
                assert live.cur_dims(x) == (low,)
            else:
                with pytest.raises(ResizeError, match="do not settle"):
                    planner.propagate_resize()


# Transactions


def test_a_failed_transaction_leaves_the_records_as_they_were() -> None:
    """However often they changed in it, by a switch and by resizing."""
    g, ids = diamond()
    planner, live = lowered(g)
    full = planner.state()
    live.set_cur_dims(ids["x"], (5, 3))
    planner.propagate_resize()
    before, state = planner.work(), planner.state()
    with suppress(KeyError), planner.transaction():
        planner.restore(full)
        for rows in (2, 7):
            live.set_cur_dims(ids["x"], (rows, 3))
            planner.propagate_resize()
        assert planner.changed
        raise KeyError
    assert (planner.work(), planner.state()) == (before, state)
    live.set_cur_dims(ids["x"], (5, 3))
    planner.propagate_resize()
    assert planner.hooks_fired == 3 * 4, "nothing is dirty"


def test_a_target_that_cannot_be_lowered_for_is_not_kept() -> None:
    wanted: list[bool] = []

    def lower(args: Args) -> list[Dispatch]:
        wanted.append(args.target.wants_candidates)
        if args.target.storage_buffers == 4:
            raise ResizeError("four are too few")
        return [Dispatch(f"for_{args.target.storage_buffers}", (args.out.id,), b"", (1, 1, 1))]

    shape = lambda args: [args.tensor("self").dims]  # noqa: E731
    with temporary_op("test.picky.default", "self: tensor -> tensor", shape=shape, lower=lower):
        g = chain(2, dims=(8,), op="test.picky.default")
        planner, live = lowered(g)
        planner.retarget(Target(storage_buffers=6))
        before = planner.work()
        with pytest.raises(ResizeError, match="four are too few"):
            planner.retarget(Target(storage_buffers=4))
        assert planner.work() == before
        live.set_cur_dims(0, (3,))
        wanted.clear()
        planner.propagate_resize()
        assert [d.kernel for d in planner.dispatches()] == ["for_6"] * 2
        assert wanted == [False] * 2, "nobody collects tunables any more"
