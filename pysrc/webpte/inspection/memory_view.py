"""Builds the result of `Program.memory` from the memory of a method's delegates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from webpte.engine.plan.memory_plan import aligned, lifetimes
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.shapes import numel
from webpte.inspection.report import Buffer, MemoryReport, MethodGraph, Node, PlacedTensor
from webpte.inspection.report.method_graph import key_of


def build_memory_report(
    graph: MethodGraph,
    device: str,
    limits: Mapping[str, int],
    delegates: Sequence[GpuDelegate],
    calls: Sequence[int],
    others: Mapping[str, Iterable[GpuDelegate]],
) -> MemoryReport:
    """Build the report.

    `calls` are the delegates that the method calls, in order; `others` are the delegates of other
    methods.
    """
    elsewhere = {
        name: frozenset(buffer for delegate in found for buffer in delegate.allocated)
        for name, found in others.items()
    }
    buffers: dict[int, Buffer] = {}
    for index, delegate in enumerate(delegates):
        number = calls.index(index) if index in calls else None
        nodes = [node for node in graph.nodes if node.delegate == number is not None]
        for buffer in _Buffers(delegate, nodes, len(graph.nodes)).all():
            shared = tuple(name for name, held in elsewhere.items() if buffer.number in held)
            # Delegates of the same method may have weights in common.
            buffers.setdefault(buffer.number, replace(buffer, shared_with=shared))
    found = tuple(buffers.values())
    needed = tuple(_needed(found, len(graph.nodes)))
    return MemoryReport(graph.program, graph.method, device, found, needed, dict(limits))


def _needed(buffers: Iterable[Buffer], count: int) -> Iterator[int]:
    used = [buffer for buffer in buffers if buffer.kind == "activations"]
    for node in range(count):
        rooms = (
            [aligned(t.nbytes) for t in buffer.tensors if t.first <= node <= t.last]
            for buffer in used
        )
        yield sum(max(room) for room in rooms if room)


class _Buffers:
    """The buffers of a delegate, with its nodes; `end` is the number of all nodes."""

    def __init__(self, delegate: GpuDelegate, nodes: Sequence[Node], end: int) -> None:
        self._delegate = delegate
        self._graph = delegate.graph
        self._flow = Dataflow.of(delegate.graph)
        self._end = end
        self._nodes = {node.call: node for node in nodes}
        self._before = nodes[0].id - 1 if nodes else -1
        self._after = nodes[-1].id + 1 if nodes else end

    def all(self) -> Iterator[Buffer]:
        memory = self._delegate.memory
        tensors: dict[int, list[PlacedTensor]] = {}
        kinds: dict[int, str] = {}
        for value_id, (first, last) in lifetimes(self._graph).items():
            number = memory.buffer_of(value_id)
            tensors.setdefault(number, []).append(self._placed(value_id, first, last))
            kinds[number] = self._kind(value_id, kinds.get(number))
        purposes = memory.purposes()
        for number, nbytes in self._delegate.allocated.items():
            kind = kinds.get(number) or purposes.get(number, "copies")
            found = sorted(tensors.get(number, ()), key=lambda t: (t.first, t.last))
            yield Buffer(number, kind, nbytes, tuple(found), ())

    def _kind(self, value_id: int, known: str | None) -> str:
        """Return the kind of a value's buffer; views of weights are in the weights' buffer."""
        if value_id in self._flow.state:
            return "state"
        return "weights" if value_id in self._flow.stored else known or "activations"

    def _placed(self, value_id: int, first: int, last: int) -> PlacedTensor:
        tensor, live = self._graph.tensor(value_id), self._delegate.live.cur_dims(value_id)
        stays = value_id in self._flow.stored
        node = next(iter(self._nodes.values()), None)
        key = f"value {value_id}" if node is None else key_of(node, value_id)
        return PlacedTensor(
            key,
            tensor.dtype.stored,
            live,
            0,
            tensor.storage_bytes,
            numel(live) * tensor.dtype.storage.itemsize,
            -1 if stays else self._node(first),
            self._end if stays else self._node(last),
        )

    def _node(self, call: int) -> int:
        if call in self._nodes:
            return self._nodes[call].id
        return self._before if call < 0 else self._after
