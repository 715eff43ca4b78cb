"""Memory plans of graphs, and a simulator that checks that every read sees its value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.graphs.graphs import build_graph, temporary_op
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import PREPACK, Graph, Tensor
from webpte.engine.plan.memory_plan import MemoryPlan, plan_memory
from webpte.engine.rewrite.validate import check_defined, constant_transfers, resolve_ops

VIEW, CLONE, RELU, ADD = (
    "aten.view_copy.default",
    "aten.clone.default",
    "aten.relu.default",
    "aten.add.Tensor",
)
MUTATE = "test.accumulate.default"


@contextmanager
def mutating_op() -> Iterator[None]:
    """`self += other`, which writes to its first argument."""
    with temporary_op(MUTATE, "self: tensor, other: tensor -> tensor", mutates=("self",)):
        yield


def plan_of(g: GraphWriter) -> tuple[Graph, MemoryPlan]:
    graph = build_graph(g)
    check_defined(graph)
    return graph, plan_memory(graph, resolve_ops(graph))


class Simulator:
    """A simulator whose slots hold the names of written values instead of numbers."""

    def __init__(self, graph: Graph, plan: MemoryPlan) -> None:
        self._graph = graph
        self._plan = plan
        self._ops = resolve_ops(graph)
        self._slots: dict[int, object] = {}
        self._values: dict[int, object] = {}  # the current value of each tensor
        self._writes = 0
        for transfer in constant_transfers(graph):
            self._write(transfer.target.id)

    def execute(self) -> None:
        for value_id in self._graph.inputs:
            if value_id in self._plan.slot_of:
                self._write(value_id)
        for call in self._graph.calls:
            if call.name != PREPACK:
                self._call(call.index)
        for value_id in self._graph.outputs:
            self._read(value_id, "the end")

    def _call(self, index: int) -> None:
        call, op = self._graph.calls[index], self._ops[index]
        reads = [i for i in self._graph.expand(call.args[:-1]) if self._is_tensor(i)]
        outs = [i for i in self._graph.expand(call.args[-1:]) if self._is_tensor(i)]
        for value_id in reads:
            self._read(value_id, str(call))
        mutated = {call.args[op.signature.positions[name]] for name in op.mutates}
        if index in self._plan.aliased_calls:
            assert self._slot(outs[0]) == self._slot(reads[0]), f"{call}: an alias elsewhere"
            self._values[outs[0]] = self._values[reads[0]]
            return
        read_slots = {self._slot(i) for i in reads if i not in mutated}
        written_slots = [self._slot(i) for i in (*outs, *(mutated - set(outs)))]
        assert not read_slots & set(written_slots), f"{call}: reads and writes one buffer"
        assert len(set(written_slots)) == len(written_slots), f"{call}: writes one buffer twice"
        for value_id in (*outs, *mutated):
            self._write(value_id)

    def _is_tensor(self, value_id: int) -> bool:
        return isinstance(self._graph.value(value_id), Tensor)

    def _slot(self, value_id: int) -> int:
        slot = self._plan.slot_of[value_id]
        assert self._plan.slots[slot].nbytes >= self._graph.tensor(value_id).storage_bytes
        return slot

    def _write(self, value_id: int) -> None:
        self._writes += 1
        self._slots[self._slot(value_id)] = self._values[value_id] = (value_id, self._writes)

    def _read(self, value_id: int, where: str) -> None:
        found, wanted = self._slots.get(self._slot(value_id)), self._values[value_id]
        assert found == wanted, f"{where}: value {value_id} should be {wanted}, memory has {found}"


def check(g: GraphWriter) -> tuple[Graph, MemoryPlan]:
    """Plan a graph, and run it twice: constants are written once, inputs every time."""
    graph, plan = plan_of(g)
    simulator = Simulator(graph, plan)
    simulator.execute()
    simulator.execute()
    return graph, plan


def view(g: GraphWriter, source: int, *dims: int) -> int:
    return g.op(VIEW, source, g.int_list(dims), g.tensor(dims))


def relu(g: GraphWriter, source: int) -> int:
    dims, dtype = g.shapes[source]
    return g.op(RELU, source, g.tensor(dims, dtype))


def add(g: GraphWriter, a: int, b: int) -> int:
    dims, dtype = g.shapes[a]
    return g.op(ADD, a, b, g.int(1), g.tensor(dims, dtype))
