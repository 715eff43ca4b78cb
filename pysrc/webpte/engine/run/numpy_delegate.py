"""A delegate's graph on the NumPy references alone: no browser, no GPU, the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from webpte.engine.dtypes import convert_exactly
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.plan import reference
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.passes import separate_buffer_writes
from webpte.engine.rewrite.validate import (
    check_arity,
    check_defined,
    constant_transfers,
    read_symint,
    resolve_ops,
    symint_sources,
)
from webpte.engine.run.request import RunRequest
from webpte.engine.run.timings import Watch, watch_numpy
from webpte.errors import ExecutionError

_TURN_SECONDS = 0.05  # longest time that runs block the event loop, unless an op takes longer


class _EventLoopShare:
    """A pause every 50 ms, in which the event loop runs other tasks, or cancels the present task.

    All delegates share a single clock: a thousand short runs block the event loop as much as a long
    run.
    """

    def __init__(self) -> None:
        self._rested = perf_counter()

    async def rest(self) -> None:
        if perf_counter() - self._rested > _TURN_SECONDS:
            await asyncio.sleep(0)
            self._rested = perf_counter()


_SHARE = _EventLoopShare()


class NumpyDelegate:
    """A delegate that walks the calls in order; tensors are arrays in their declared dtype."""

    def __init__(self, graph: Graph, constants: dict[int, np.ndarray]) -> None:
        check_arity(graph)
        graph = separate_buffer_writes(graph)
        check_defined(graph)
        self.graph = graph
        self._ops = resolve_ops(graph)
        self._symint_sources = symint_sources(graph, self._ops)
        self._constants = constants
        self._checked = reference.CheckedCalls(graph)
        # State: runs work on copies, which replace the state when the run succeeds.
        self._state = Dataflow.of(graph).state & constants.keys()
        self.transfers = len(constants)
        self.executions = 0

    @classmethod
    async def create(cls, graph: Graph) -> NumpyDelegate:
        constants: dict[int, np.ndarray] = {}
        for transfer in constant_transfers(graph):
            tensor = transfer.target
            data = await transfer.constant.region.read(0, tensor.file_bytes)
            array = tensor.dtype.from_bytes(bytearray(data))
            constants[tensor.id] = array.reshape(tensor.dims)
        return cls(graph, constants)

    def with_graph(
        self, graph: Graph, state: Mapping[int, np.ndarray] | None = None
    ) -> NumpyDelegate:
        """Return a delegate of a graph with the constants and the state of this delegate.

        `state` replaces tensors of the state.
        """
        constants = self._constants
        return NumpyDelegate(graph, constants if state is None else {**constants, **state})

    @property
    def input_count(self) -> int:
        return len(self.graph.inputs)

    async def run(self, request: RunRequest) -> list[Any]:
        """Run once: an array or an int per output, for every placement in the request."""
        return await self.run_watched(request.inputs, watch_numpy(request.timings))

    async def run_watched(
        self, inputs: Sequence[np.ndarray | int], watch: Watch | None
    ) -> list[Any]:
        """Run once; `watch`, called before every call, returns a function to call after it."""
        if len(inputs) != len(self.graph.inputs):
            raise ExecutionError(
                f"the delegate takes {len(self.graph.inputs)} inputs, not {len(inputs)}"
            )
        await _SHARE.rest()
        live = LiveState(self.graph)
        arrays = self._constants | {i: self._constants[i].copy() for i in self._state}
        self._set_inputs(inputs, live, arrays)
        room = reference.MEMORY_LIMIT - sum(array.nbytes for array in arrays.values())
        for index, op in sorted(self._ops.items()):
            call = self.graph.calls[index]
            done = None if watch is None else watch(self.graph, call, live, arrays)
            room -= reference.run_reference(op, call, self.graph, live, arrays, room, self._checked)
            if done is not None:
                done()
            # a run that writes state must not be cancelled midway
            if not self._state and watch is None:
                await _SHARE.rest()
        outputs = [
            live.symint(i) if self.graph.is_symint(i) else arrays[i].copy()
            for i in self.graph.outputs
        ]
        self.executions += 1
        self._constants |= {i: arrays[i] for i in self._state}
        return outputs

    @property
    def has_state(self) -> bool:
        return bool(self._state)

    async def save_state(self) -> Callable[[], None]:
        """Return a function that restores the present state."""
        saved = {i: self._constants[i] for i in self._state}
        return lambda: self._constants.update(saved)

    def state_of(self, value_id: int) -> np.ndarray:
        """Return a tensor of the present state."""
        return self._constants[value_id]

    def set_state(self, arrays: Mapping[int, np.ndarray]) -> None:
        """Replace tensors of the state."""
        self._constants |= arrays

    def _set_inputs(
        self, inputs: Sequence[np.ndarray | int], live: LiveState, arrays: dict[int, np.ndarray]
    ) -> None:
        by_id = dict(zip(self.graph.inputs, inputs, strict=True))
        for index, (value_id, value) in enumerate(by_id.items()):
            if isinstance(value, np.ndarray):
                live.set_cur_dims(value_id, value.shape)
                dtype = self.graph.tensor(value_id).dtype.numpy
                # A copy: ops that write in place must not write to the caller's array.
                arrays[value_id] = convert_exactly(value, dtype, f"input {index}").copy()
            else:
                live.set_symint(value_id, value)
        for source in self._symint_sources:
            live.set_symint(source.symint, read_symint(source, by_id[source.input]))
