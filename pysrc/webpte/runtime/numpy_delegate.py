"""One delegate's graph on the NumPy references alone: no browser, no GPU, the same answers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.dtypes import convert_exactly
from webpte.errors import ExecutionError, GraphError, OutOfMemoryError, UnsupportedError
from webpte.graph import Call, Graph, Tensor
from webpte.live import LiveState
from webpte.ops import OpDef
from webpte.passes import rewritten_buffers, separate_buffer_writes
from webpte.plan import (
    check_arity,
    check_bounds,
    check_defined,
    constant_transfers,
    naming,
    read_symint,
    resize_outputs,
    resolve_ops,
    symint_sources,
)
from webpte.shapes import numel


def _machine_memory() -> int:
    """Bytes of memory, as far as Python can tell and address them."""
    if sys.maxsize < 1 << 32 or not hasattr(os, "sysconf"):
        return min(sys.maxsize, 1 << 36)
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


# What the arrays of one execution may take: the machine would fail on more, and not with an error.
MEMORY_LIMIT = _machine_memory()


class NumpyDelegate:
    """Walks the calls in order; tensors are arrays in their declared dtype."""

    def __init__(self, graph: Graph, constants: dict[int, np.ndarray]) -> None:
        check_arity(graph)
        graph = separate_buffer_writes(graph)
        check_defined(graph)
        self._graph = graph
        self._ops = resolve_ops(graph)
        self._symint_sources = symint_sources(graph, self._ops)
        self._constants = constants
        self._rewritten = rewritten_buffers(graph)
        self.transfers = len(constants)
        self.executions = 0

    @classmethod
    async def create(cls, graph: Graph) -> NumpyDelegate:
        constants: dict[int, np.ndarray] = {}
        for transfer in constant_transfers(graph):
            tensor = transfer.target
            data = await transfer.constant.region.read(0, tensor.file_bytes)
            array = np.frombuffer(bytearray(data), tensor.dtype.numpy)
            constants[tensor.id] = array.reshape(tensor.dims)
        return cls(graph, constants)

    @property
    def input_count(self) -> int:
        return len(self._graph.inputs)

    async def execute(self, inputs: Sequence[np.ndarray | int]) -> list[Any]:
        if len(inputs) != len(self._graph.inputs):
            raise ExecutionError(
                f"the delegate takes {len(self._graph.inputs)} inputs, not {len(inputs)}"
            )
        live = LiveState(self._graph)
        arrays = dict(self._constants)
        self._set_inputs(inputs, live, arrays)
        room = MEMORY_LIMIT - sum(array.nbytes for array in arrays.values())
        for index, op in sorted(self._ops.items()):
            room -= run_reference(op, self._graph.calls[index], self._graph, live, arrays, room)
        self.executions += 1
        self._constants |= {i: arrays[i] for i in self._rewritten}
        return [
            live.symint(i) if self._graph.is_symint(i) else arrays[i].copy()
            for i in self._graph.outputs
        ]

    def _set_inputs(
        self, inputs: Sequence[np.ndarray | int], live: LiveState, arrays: dict[int, np.ndarray]
    ) -> None:
        by_id = dict(zip(self._graph.inputs, inputs, strict=True))
        for index, (value_id, value) in enumerate(by_id.items()):
            if isinstance(value, np.ndarray):
                live.set_cur_dims(value_id, value.shape)
                dtype = self._graph.tensor(value_id).dtype.numpy
                # A copy: ops that write in place must not write to the caller's array.
                arrays[value_id] = convert_exactly(value, dtype, f"input {index}").copy()
            else:
                live.set_symint(value_id, value)
        for source in self._symint_sources:
            live.set_symint(source.symint, read_symint(source, by_id[source.input]))


def run_reference(
    op: OpDef,
    call: Call,
    graph: Graph,
    live: LiveState,
    arrays: dict[int, np.ndarray],
    room: int | None = None,
) -> int:
    """Run one call on arrays by value id; its outputs are added to them.

    Returns the bytes of the outputs. More than `room` (by default the memory limit) are refused
    before anything is computed.
    """
    with naming(call):
        given = {i: _widened(arrays[i]) for i in graph.expand(call.args) if i in arrays}
        args = op.bind(call, graph, live, given)
        if op.scalar is not None:
            args.set_symint_out(op.scalar(args))
            return 0
        resize_outputs(op, args, live)
        room = MEMORY_LIMIT if room is None else room
        nbytes = sum(numel(out.dims) * out.dtype.itemsize for out in args.outs)
        if nbytes > room:
            raise OutOfMemoryError(
                f"{nbytes:,} bytes of outputs, but {max(room, 0):,} are left of "
                f"{MEMORY_LIMIT:,} for the arrays of one run"
            )
        check_bounds(op.bounds(args), live)
        with contextlib.suppress(UnsupportedError):
            op.lower(args)  # it is pure, and run for its checks of arguments
        with np.errstate(all="ignore"):
            results = op.reference(args)
            if isinstance(results, np.ndarray | np.generic):
                results = [np.asarray(results)]
            for out, result in zip(args.outs, results, strict=True):
                dims = live.cur_dims(out.id)
                arrays[out.id] = _checked(str(call), result, graph.tensor(out.id), dims)
            for name in op.mutates:
                arrays[args.tensor(name).id][...] = args.array(name)
    return nbytes


def _widened(array: np.ndarray) -> np.ndarray:
    """Half floats as what kernels compute in; NumPy would round every intermediate result."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _checked(where: str, result: np.ndarray, tensor: Tensor, dims: tuple[int, ...]) -> np.ndarray:
    """A reference that disagrees with its own shape function is a bug, and must show."""
    if result.shape != dims:
        raise GraphError(
            f"{where}: the reference gives {list(result.shape)}, the shape function {list(dims)}"
        )
    if tensor.dtype.name == "bool":
        return result.astype(np.bool_)
    return result.astype(tensor.dtype.numpy, casting="same_kind", copy=False)
