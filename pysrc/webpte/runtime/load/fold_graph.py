"""Calls of a delegate's graph that constants determine: computed once, when it is built.

Encoders have many of them (positions, the embeddings of these, masks that are made of them), and
each would be a dispatch of every run. What they give becomes a constant like those of the file.

A call stays if it gives much, if something else writes there, or if what it takes is not known
before a run: inputs, SymInts, state. Views of weights stay as well, since they cost nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from webpte.errors import WebpteError
from webpte.graph.graph import PREPACK, Call, Constant, Graph, Tensor
from webpte.graph.live_state import LiveState
from webpte.ops import OpDef, lookup
from webpte.plan.reference import run_reference
from webpte.rewrite.dataflow import Dataflow
from webpte.rewrite.validate import constant_transfers
from webpte.source import BytesSource, Region

MOST_GIVEN = 1 << 20  # bytes of what one call gives
MOST_TAKEN = 1 << 22  # bytes of one constant that has to be read for it


async def fold_constants(graph: Graph) -> Graph:
    """The graph without the calls that constants determine."""
    folding = _Folding(graph)
    for call in folding.flow.computing:
        op = lookup(call.name)
        if op is not None and folding.is_known(op, call):
            await folding.run(op, call)
    return folding.result()


class _Folding:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.flow = Dataflow.of(graph)
        self._constants = {t.target.id: t.constant for t in constant_transfers(graph)}
        self._arrays: dict[int, np.ndarray] = {}
        self._live = LiveState(graph)
        self._gone: set[int] = set()  # indices of calls
        self._made: set[int] = set()

    def is_known(self, op: OpDef, call: Call) -> bool:
        """Whether all that a call takes is there before a run, and what it gives is its own."""
        flow, given = self.flow, self.flow.gives(call)
        if op.scalar is not None or op.mutates or flow.volatile.intersection(given):
            return False
        symints = any(self.graph.is_symint(i) for i in (*flow.takes(call), *given))
        tensors = [self.graph.tensor(i) for i in flow.writes(call)]
        small = all(tensor.file_bytes <= MOST_GIVEN for tensor in tensors)
        own = not flow.given.intersection(given) and not set(self.graph.outputs) & set(given)
        taken = flow.reads(call)
        view_of_file = op.alias_of is not None and not self._made.intersection(taken)
        return (
            not symints
            and small
            and own
            and not view_of_file
            and all(self._is_there(i) for i in taken)
        )

    def _is_there(self, value_id: int) -> bool:
        if value_id in self._made:
            return True
        steady = value_id not in self.flow.volatile and value_id not in self.graph.inputs
        known = steady and value_id in self._constants
        return known and self.graph.tensor(value_id).file_bytes <= MOST_TAKEN

    async def run(self, op: OpDef, call: Call) -> None:
        """Compute it. One that fails stays: the run says what is wrong with it."""
        for value_id in self.flow.reads(call):
            if value_id not in self._arrays:
                self._arrays[value_id] = await self._read(self.graph.tensor(value_id))
        try:
            run_reference(op, call, self.graph, self._live, self._arrays)
        except WebpteError:
            return
        given = self.flow.writes(call)
        if all(self._arrays[i].shape == self.graph.tensor(i).dims for i in given):
            self._gone.add(call.index)
            self._made.update(given)

    async def _read(self, tensor: Tensor) -> np.ndarray:
        data = await self._constants[tensor.id].region.read(0, tensor.file_bytes)
        return np.frombuffer(bytearray(data), tensor.dtype.numpy).reshape(tensor.dims)

    def result(self) -> Graph:
        if not self._gone:
            return self.graph
        kept = [call for call in self.graph.calls if call.index not in self._gone]
        used = {i for call in kept if call.name != PREPACK for i in self.flow.takes(call)}
        used.update(self.graph.outputs)
        # A prepack that only folded calls read has nothing to move any more.
        kept = [call for call in kept if call.name != PREPACK or self._is_used(call, used)]
        values = list(self.graph.values)
        for value_id in self._made & used:
            values[value_id] = self._constant(self.graph.tensor(value_id))
        calls = tuple(replace(call, index=i) for i, call in enumerate(kept))
        return Graph(tuple(values), calls, self.graph.inputs, self.graph.outputs)

    def _is_used(self, prepack: Call, used: set[int]) -> bool:
        readers = self.flow.readers.get(prepack.args[-1], ())
        return prepack.args[-1] in used or not self._gone.issuperset(readers) or not readers

    def _constant(self, tensor: Tensor) -> Tensor:
        array = self._arrays[tensor.id].astype(tensor.dtype.numpy)
        source = BytesSource(array.tobytes(), f"value {tensor.id}")
        constant = Constant(Region(source, 0, source.size), None)
        return replace(tensor, constant=constant, mem_obj_id=None)
