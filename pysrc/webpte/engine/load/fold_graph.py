"""Folds the calls of a delegate's graph that constants determine, when the delegate is built.

Encoders have many such calls (positions, embeddings of positions, masks computed from positions),
and each would be a dispatch of every run. Their outputs become constants like the constants in the
file.

A call stays if its outputs are large, if another call writes to its outputs, or if an input is not
known before a run: inputs, SymInts, state. Views of weights stay as well, since they cost nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from webpte.engine.graph.graph import PREPACK, Call, Constant, Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.load.constant_folder import ConstantFolder
from webpte.engine.ops import lookup
from webpte.engine.plan.reference import run_reference
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import constant_transfers

MOST_GIVEN = 1 << 20  # bytes of an output
MOST_TAKEN = 1 << 22  # bytes of a constant that has to be read


async def fold_constants(graph: Graph) -> Graph:
    """Return the graph without the calls that constants determine."""
    folder = _GraphFolder(graph)
    await folder.fold(folder.flow.computing)
    return folder.result()


class _GraphFolder(ConstantFolder[Call]):
    """A folder of the calls of a graph. `results` are arrays by value id."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.flow = Dataflow.of(graph)
        self._constants = {t.target.id: t.constant for t in constant_transfers(graph)}
        self._arrays: dict[int, np.ndarray] = {}  # results, and constants of the file
        self._live = LiveState(graph)

    def can_fold(self, call: Call) -> bool:
        """Return whether a call is small, writes only its own outputs, and reads only constants."""
        op, flow, given = lookup(call.name), self.flow, self.flow.gives(call)
        if op is None or op.scalar is not None or op.mutates or flow.volatile.intersection(given):
            return False
        symints = any(self.graph.is_symint(i) for i in (*flow.takes(call), *given))
        tensors = [self.graph.tensor(i) for i in flow.writes(call)]
        small = all(tensor.file_bytes <= MOST_GIVEN for tensor in tensors)
        own = not flow.given.intersection(given) and not set(self.graph.outputs) & set(given)
        taken = flow.reads(call)
        view_of_file = op.alias_of is not None and not self.results.keys() & taken
        return (
            not symints
            and small
            and own
            and not view_of_file
            and all(self._is_there(i) for i in taken)
        )

    def _is_there(self, value_id: int) -> bool:
        if value_id in self.results:
            return True
        steady = value_id not in self.flow.volatile and value_id not in self.graph.inputs
        known = steady and value_id in self._constants
        return known and self.graph.tensor(value_id).file_bytes <= MOST_TAKEN

    async def read_inputs(self, call: Call) -> None:
        for value_id in self.flow.reads(call):
            if value_id not in self._arrays:
                self._arrays[value_id] = await self._read(self.graph.tensor(value_id))

    def compute(self, call: Call) -> dict[int, np.ndarray] | None:
        op = lookup(call.name)
        assert op is not None, "see can_fold"
        run_reference(op, call, self.graph, self._live, self._arrays)
        given = {i: self._arrays[i] for i in self.flow.writes(call)}
        exact = all(array.shape == self.graph.tensor(i).dims for i, array in given.items())
        return given if exact else None

    async def _read(self, tensor: Tensor) -> np.ndarray:
        data = await self._constants[tensor.id].region.read(0, tensor.file_bytes)
        return tensor.dtype.from_bytes(bytearray(data)).reshape(tensor.dims)

    def result(self) -> Graph:
        """Return the graph with the results of folded calls as constants."""
        if not self.folded:
            return self.graph
        folded = {call.index for call in self.folded}
        kept = [call for call in self.graph.calls if call.index not in folded]
        used = {i for call in kept if call.name != PREPACK for i in self.flow.takes(call)}
        used.update(self.graph.outputs)
        # A prepack that only folded calls read has no data to move any more.
        kept = [call for call in kept if call.name != PREPACK or self._is_used(call, used, folded)]
        values = list(self.graph.values)
        for value_id in self.results.keys() & used:
            values[value_id] = self._constant(self.graph.tensor(value_id))
        calls = tuple(replace(call, index=i) for i, call in enumerate(kept))
        return Graph(tuple(values), calls, self.graph.inputs, self.graph.outputs)

    def _is_used(self, prepack: Call, used: set[int], folded: set[int]) -> bool:
        readers = self.flow.readers.get(prepack.args[-1], ())
        return prepack.args[-1] in used or not folded.issuperset(readers) or not readers

    def _constant(self, tensor: Tensor) -> Tensor:
        constant = Constant.in_memory(self._arrays[tensor.id], tensor.dtype)
        return replace(tensor, constant=constant, mem_obj_id=None)
