"""The index of reads and writes: lists count with their members, prepacks are no writers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from support.graphs.graphs import build_graph, temporary_op
from support.write.pte_writer import GraphWriter
from webpte.engine.rewrite.dataflow import Dataflow

RELU, ADD, SPLIT = "aten.relu.default", "aten.add.Tensor", "test.split.default"
STORE = "test.store.default"


@pytest.fixture(autouse=True)
def _ops() -> Iterator[None]:
    with (
        temporary_op(SPLIT, "self: tensor -> tensors"),
        temporary_op(STORE, "value: tensor, cache: tensor -> tensor", mutates=("cache",)),
    ):
        yield


class Mixed:
    """Every way in which a value comes to be, and one call of each kind."""

    def __init__(self) -> None:
        g = GraphWriter()
        self.x, self.scale = g.tensor((4,)), g.int(1)
        self.weight = g.tensor((4,), constant=np.ones(4, np.float32))
        self.direct = g.tensor((4,), constant=np.ones(4, np.float32))
        self.cache = g.prepack(self.weight)  # op 0
        self.sum = g.op(ADD, self.x, self.direct, self.scale, g.tensor((4,)))  # op 1
        self.a, self.b = g.tensor((2,)), g.tensor((2,))
        self.pair = g.value_list([self.a, self.b])
        g.op(SPLIT, self.sum, self.pair)  # op 2
        self.dummy = g.op(STORE, self.sum, self.cache, g.tensor((1,)))  # op 3
        self.joined = g.op("aten.cat.default", self.pair, g.int(0), g.tensor((4,)))  # op 4
        self.unread = g.tensor((4,), constant=np.ones(4, np.float32))
        g.inputs(self.x)
        g.outputs(self.joined)
        self.graph = build_graph(g)
        self.flow = Dataflow.of(self.graph)


def test_what_a_call_reads_and_writes() -> None:
    m = Mixed()
    prepack, add, split, store, cat = m.graph.calls
    assert m.flow.takes(add) == (m.x, m.direct, m.scale)
    assert m.flow.reads(add) == (m.x, m.direct)
    assert m.flow.gives(split) == (m.pair, m.a, m.b)
    assert m.flow.writes(split) == (m.a, m.b)
    assert m.flow.reads(cat) == (m.a, m.b)
    assert m.flow.changes(store) == (m.cache,)
    assert m.flow.writes(store) == (m.dummy, m.cache)
    assert m.flow.changes(add) == m.flow.changes(prepack) == ()


def test_a_value_that_a_call_takes_twice_is_read_once() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    out = g.op(ADD, x, x, g.int(1), g.tensor((4,)))
    g.inputs(x)
    g.outputs(out)
    flow = Dataflow.of(graph := build_graph(g))
    assert flow.reads(graph.calls[0]) == (x,)
    assert flow.readers[x] == (0,)


def test_readers_and_writers_by_value() -> None:
    m = Mixed()
    assert m.flow.readers[m.weight] == (0,)
    assert m.flow.readers[m.sum] == (2, 3)
    assert m.flow.readers[m.b] == m.flow.readers[m.pair] == (4,)
    assert m.flow.readers[m.scale] == (1,)
    assert m.joined not in m.flow.readers
    assert m.flow.writers[m.a] == m.flow.writers[m.pair] == (2,)
    assert m.flow.writers[m.joined] == (4,)
    assert not m.flow.writers.keys() & {m.x, m.weight, m.cache, m.direct}


def test_what_is_given() -> None:
    m = Mixed()
    assert m.flow.constants == {m.weight, m.direct, m.unread}
    assert m.flow.prepacked == {m.cache: 1}
    assert m.flow.stored == m.flow.constants | {m.cache}
    assert m.flow.given == m.flow.stored | {m.x}
    assert [call.index for call in m.flow.prepacks] == [0]
    assert [call.index for call in m.flow.computing] == [1, 2, 3, 4]


def test_what_only_a_prepack_reads_is_not_used() -> None:
    m = Mixed()
    assert {m.x, m.direct, m.cache, m.a, m.b, m.joined, m.dummy} <= m.flow.used
    assert not m.flow.used & {m.weight, m.unread}


def test_an_output_that_no_call_touches_is_used() -> None:
    g = GraphWriter()
    w = g.tensor((4,), constant=np.ones(4, np.float32))
    g.outputs(w)
    assert Dataflow.of(build_graph(g)).used == {w}


def test_what_changes_while_the_graph_runs() -> None:
    m = Mixed()
    assert m.flow.mutated == m.flow.volatile == {m.cache}
    assert [m.flow.times_written(i) for i in (m.x, m.direct, m.cache, m.a)] == [1, 1, 1, 1]
    assert m.flow.times_written(m.scale) == 0


@pytest.mark.parametrize("target", ["input", "constant", "prepacked", "written"])
def test_a_second_write_makes_a_value_volatile(target: str) -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    constant = g.tensor((4,), constant=np.ones(4, np.float32))
    prepacked, written = g.prepack(constant), g.op(RELU, x, g.tensor((4,)))
    value = {"input": x, "constant": constant, "prepacked": prepacked, "written": written}[target]
    g.op(RELU, y, value)
    g.inputs(x, y)
    g.outputs(value)
    flow = Dataflow.of(build_graph(g))
    assert flow.times_written(value) == 2
    assert flow.volatile == {value}


def test_an_output_that_stands_twice_in_a_list_is_written_twice() -> None:
    g = GraphWriter()
    x, a = g.tensor((4,)), g.tensor((2,))
    g.op(SPLIT, x, g.value_list([a, a]))
    g.inputs(x)
    g.outputs(a)
    flow = Dataflow.of(build_graph(g))
    assert flow.writers[a] == (0, 0)
    assert flow.volatile == {a}


def test_the_index_is_made_once_per_graph() -> None:
    m, other = Mixed(), Mixed()
    assert Dataflow.of(m.graph) is m.flow
    assert Dataflow.of(m.graph).readers is m.flow.readers
    assert Dataflow.of(other.graph) is not m.flow


def test_calls_that_are_broken_have_an_index_too() -> None:
    """Checks ask it before anything is known of the calls."""
    g = GraphWriter()
    x = g.tensor((4,))
    g.op("et_vk.prepack.default")
    g.op(STORE, x)
    g.op("aten.unheard_of.default", x, g.tensor((4,)))
    flow = Dataflow.of(graph := build_graph(g))
    assert flow.prepacked == {}
    assert [flow.changes(call) for call in graph.calls] == [(), (), ()]
    assert flow.mutated == frozenset()
