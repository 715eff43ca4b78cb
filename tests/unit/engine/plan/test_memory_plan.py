"""The memory plan. A simulator runs graphs on it and checks that every read sees its value."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.graphs.graphs import temporary_op
from support.graphs.memory_plans import (
    ADD,
    CLONE,
    MUTATE,
    RELU,
    VIEW,
    Simulator,
    add,
    check,
    mutating_op,
    plan_of,
    relu,
)
from support.harness import extent
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import PREPACK
from webpte.engine.plan.memory_plan import ALIGNMENT, MemoryPlan, aligned, kept_inputs, plan_memory
from webpte.engine.rewrite.validate import resolve_ops

# Slots


def test_memory_is_reused_but_never_read_and_written_by_one_dispatch() -> None:
    g = GraphWriter()
    value = x = g.tensor((1000,))
    for _ in range(30):
        value = relu(g, value)
    g.inputs(x)
    g.outputs(value)
    _, plan = check(g)
    assert len(plan.slots) == 2
    assert plan.nbytes == 2 * 4000


def test_slots_are_whole_quads() -> None:
    g = GraphWriter()
    x = g.tensor((5,), "bool")
    y = g.op("aten.logical_not.default", x, g.tensor((5,), "bool"))
    g.inputs(x)
    g.outputs(y)
    _, plan = check(g)
    assert [slot.nbytes for slot in plan.slots] == [16, 16]


@pytest.mark.parametrize(("nbytes", "expected"), [(0, 16), (1, 16), (16, 16), (17, 32), (64, 64)])
def test_aligned(nbytes: int, expected: int) -> None:
    assert aligned(nbytes) == expected


def test_a_slot_is_as_large_as_its_largest_tenant() -> None:
    g = GraphWriter()
    x = g.tensor((2,))
    a = relu(g, x)
    big = g.op(
        ADD,
        a,
        g.tensor((100, 1), constant=np.ones((100, 1), np.float32)),
        g.int(1),
        g.tensor((100, 2)),
    )
    last = relu(g, big)
    row = g.op("aten.select_copy.int", last, g.int(0), g.int(1), g.tensor((2,)))
    g.inputs(x)
    g.outputs(relu(g, row))
    _, plan = check(g)
    assert plan.slot_of[row] == plan.slot_of[big], "the smaller one came later"
    assert all(plan.slots[plan.slot_of[i]].nbytes >= 800 for i in (big, last))


@pytest.mark.parametrize("larger", ["view", "source"])
def test_a_slot_is_as_large_as_the_largest_of_its_aliases(larger: str) -> None:
    """The size of a view that follows a SymInt is declared larger than it ever is."""
    g = GraphWriter()
    x, n = g.tensor((12,)), g.symint(3)
    dims = [(12,), (12, 12)]
    a = g.op(RELU, x, g.tensor(dims[larger == "source"]))
    v = g.op(VIEW, a, g.value_list([n, g.int(-1)]), g.tensor(dims[larger == "view"]))
    g.inputs(x, n)
    g.outputs(relu(g, v))
    graph, plan = check(g)
    assert plan.slot_of[a] == plan.slot_of[v]
    assert plan.slots[plan.slot_of[a]].nbytes == 4 * 144
    assert {graph.tensor(i).storage_bytes for i in (a, v)} == {4 * 12, 4 * 144}


def pair(g: GraphWriter, a: int, b: int) -> tuple[int, int]:
    """One op on two tensors, whose memory is free at the same time afterwards."""
    first, second = (g.tensor(*g.shapes[i]) for i in (a, b))
    g.op("test.pair.default", a, b, g.value_list([first, second]))
    return first, second


@pytest.fixture
def _pair() -> Iterator[None]:
    with temporary_op("test.pair.default", "a: tensor, b: tensor -> tensors"):
        yield


@pytest.mark.usefixtures("_pair")
def test_the_best_fitting_slot_is_taken() -> None:
    """A small value does not block the large slot that the next one needs."""
    g = GraphWriter()
    big, small = g.tensor((1000,)), g.tensor((4,))
    a, b = pair(g, big, small)
    c = relu(g, b)
    d = relu(g, a)
    g.inputs(big, small)
    g.outputs(c, d)
    _, plan = check(g)
    assert plan.slot_of[c] == plan.slot_of[small]
    assert plan.slot_of[d] == plan.slot_of[big]
    assert plan.nbytes == 2 * 4000 + 2 * 16


@pytest.mark.usefixtures("_pair")
def test_where_no_slot_fits_the_largest_grows() -> None:
    g = GraphWriter()
    small, medium = g.tensor((4,)), g.tensor((16,))
    a, b = pair(g, small, medium)
    column = g.tensor((250, 1), constant=np.ones((250, 1), np.float32))
    big = g.op(ADD, a, column, g.int(1), g.tensor((250, 4)))
    g.inputs(small, medium)
    g.outputs(big, b)
    _, plan = check(g)
    assert plan.slot_of[big] == plan.slot_of[medium]
    assert plan.slots[plan.slot_of[small]].nbytes == 16


def test_what_is_prepacked_late_has_its_memory_from_the_start() -> None:
    g = GraphWriter()
    x, w = g.tensor((4,)), g.tensor((4,))
    out = relu(g, relu(g, add(g, x, w)))
    g.op(PREPACK, g.tensor((4,), constant=np.ones(4, np.float32)), w)
    g.inputs(x)
    g.outputs(out)
    _, plan = check(g)
    assert plan.slots[plan.slot_of[w]].dedicated


def test_nothing_else_is_planned_into_borrowed_memory() -> None:
    """Borrowed memory is another delegate's, which would read intermediates as its values."""
    g = GraphWriter()
    x = g.tensor((100,))
    g.inputs(x)
    g.outputs(relu(g, relu(g, relu(g, x))))
    graph, own = plan_of(g)
    assert list(own.slot_of.values()).count(own.slot_of[x]) > 1
    plan = plan_memory(graph, resolve_ops(graph), {x})
    assert plan.slots[plan.slot_of[x]].dedicated
    assert list(plan.slot_of.values()).count(plan.slot_of[x]) == 1


@pytest.mark.parametrize(
    ("tokens", "position", "more", "kept"),
    [
        ((1, 3), (1,), [(1, 5, 4), (1, 3, 4), (2, 3), (1,)], [0, 2, 3]),
        ((1, 3), (1, 1), [(1, 5, 4)], []),  # not a position
        ((3,), (1,), [(1, 5, 4)], []),  # not tokens
    ],
)
def test_the_inputs_that_decode_steps_have_in_common(
    tokens: tuple[int, ...],
    position: tuple[int, ...],
    more: list[tuple[int, ...]],
    kept: list[int],
) -> None:
    """Inputs with a row for each token change with them, and are not among these."""
    for stateful in (True, False):
        g = GraphWriter()
        given = [g.tensor(tokens, "int64"), g.tensor(position, "int64")]
        extra = [g.tensor(dims) for dims in more]
        cache = g.prepack(g.tensor((4,), constant=np.ones(4, np.float32)))
        total = add(g, cache, cache)
        if stateful:
            g.op("aten.alias_copy.default", total, cache)
        g.inputs(*given, *extra)
        g.outputs(total, *(relu(g, i) for i in extra))
        graph, plan = plan_of(g)
        assert kept_inputs(graph) == tuple(extra[i] for i in kept if stateful)
        slots = [plan.slots[plan.slot_of[i]] for i in extra]
        assert [slot.dedicated for slot in slots] == [
            stateful and i in kept for i in range(len(more))
        ]


def test_what_nobody_uses_gets_no_memory() -> None:
    g = GraphWriter()
    x, unused_input, unused = g.tensor((4,)), g.tensor((4,)), g.tensor((4,))
    w = g.tensor((4,), constant=np.ones(4, np.float32))
    source = g.tensor((4,), constant=np.ones(4, np.float32))
    out = add(g, x, g.prepack(source))
    g.inputs(x, unused_input)
    g.outputs(out)
    _, plan = check(g)
    assert not {unused_input, unused, w, source} & plan.slot_of.keys()


def test_an_output_that_is_an_unused_input() -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    out = relu(g, y)
    g.inputs(x, y)
    g.outputs(x, out)
    check(g)


def test_several_outputs_of_one_op_have_memory_of_their_own() -> None:
    with temporary_op("test.split.default", "self: tensor -> tensors"):
        g = GraphWriter()
        x = g.tensor((4,))
        a, b, c = g.tensor((2,)), g.tensor((2,)), g.tensor((2,))
        g.op("test.split.default", x, g.value_list([a, b, c]))
        g.inputs(x)
        g.outputs(c, a)
        _, plan = check(g)
        assert len({plan.slot_of[i] for i in (x, a, b, c)}) == 4


def test_the_exporters_own_plan_would_fail_here() -> None:
    """The simulator can tell: with memory objects for slots, an aliased view reads garbage."""
    g = GraphWriter()
    x = g.tensor((4,), mem_obj_id=0)
    a = g.op(RELU, x, g.tensor((4,), mem_obj_id=1))
    v = g.op(VIEW, a, g.int_list([2, 2]), g.tensor((2, 2), mem_obj_id=1))
    b = g.op(RELU, x, g.tensor((4,), mem_obj_id=1))
    out = g.op(ADD, v, v, g.int(1), g.tensor((2, 2), mem_obj_id=0))
    g.inputs(x)
    g.outputs(out)
    graph, plan = plan_of(g)
    groups = {t.id: t.mem_obj_id for t in graph.tensors() if t.mem_obj_id is not None}
    wrong = MemoryPlan(plan.slots, groups, plan.aliased_calls)
    with pytest.raises(AssertionError, match=f"value {v} should be"):
        Simulator(graph, wrong).execute()
    assert b in groups


# Random graphs


def random_graph(seed: int) -> GraphWriter:
    """Ops, views, casts, constants, prepacks, mutations, unused values, values written twice."""
    rng = random.Random(seed)
    g = GraphWriter()
    shapes = [(2, 6), (12,), (3, 4), (12, 1)]
    inputs = [g.tensor(rng.choice(shapes)) for _ in range(rng.randint(1, 3))]
    constants = [
        g.tensor((12,), constant=np.arange(12, dtype=np.float32)) for _ in range(rng.randint(0, 2))
    ]
    known = [*inputs, *constants, *(g.prepack(i) for i in constants if rng.random() < 0.7)]
    written: list[int] = []

    def out(dims: tuple[int, ...]) -> int:
        """Return a new tensor, or now and then a tensor that was written before."""
        again = [i for i in written if g.shapes[i][0] == dims]
        return rng.choice(again) if again and rng.random() < 0.1 else g.tensor(dims)

    def same_shape(value: int) -> int:
        fitting = [i for i in known if g.shapes[i][0] == g.shapes[value][0]]
        return rng.choice(fitting)

    steps: list[Callable[[int], int]] = [
        lambda i: g.op(RELU, i, fresh(g.shapes[i][0], i)),
        lambda i: g.op(ADD, i, (j := same_shape(i)), g.int(1), fresh(g.shapes[i][0], i, j)),
        lambda i: g.op(VIEW, i, g.int_list(dims := rng.choice(shapes)), fresh(dims, i)),
        lambda i: g.op(CLONE, i, g.null(), fresh(g.shapes[i][0], i)),
        lambda i: g.op(MUTATE, i, (j := other_than(i)), fresh(g.shapes[i][0], i, j)),
    ]

    def fresh(dims: tuple[int, ...], *reads: int) -> int:
        """An output that the op does not also read."""
        value = out(dims)
        return g.tensor(dims) if value in reads else value

    def other_than(value: int) -> int:
        fitting = [i for i in known if g.shapes[i][0] == g.shapes[value][0] and i != value]
        return rng.choice(fitting) if fitting else g.op(RELU, value, g.tensor(g.shapes[value][0]))

    for _ in range(rng.randint(1, 25)):
        weights = [4, 4, 4, 2, 1]
        value = rng.choice(known[-6:] if rng.random() < 0.7 else known)
        result = rng.choices(steps, weights)[0](value)
        known.append(result)
        written.append(result)
    g.inputs(*inputs)
    g.outputs(*rng.sample(known, k=min(len(known), rng.randint(1, 4))))
    return g


@pytest.mark.parametrize("seed", range(extent.count(100, 250)))
def test_random_graphs_read_what_was_written(seed: int) -> None:
    with mutating_op():
        _, plan = check(random_graph(seed))
        assert all(slot.nbytes % ALIGNMENT == 0 for slot in plan.slots)


def test_random_graphs_have_what_they_promise() -> None:
    """The property test would be hollow if no alias, reuse or mutation came up."""
    aliases = copies = reused = mutated = 0
    with mutating_op():
        for seed in range(100):
            graph, plan = plan_of(random_graph(seed))
            views = [c for c in graph.calls if c.name in (VIEW, CLONE)]
            aliases += len(plan.aliased_calls)
            copies += len(views) - len(plan.aliased_calls)
            reused += len(plan.slot_of) - len(plan.slots)
            mutated += any(c.name == MUTATE for c in graph.calls)
    assert min(aliases, copies, reused, mutated) > 30
