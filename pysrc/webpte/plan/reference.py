"""The NumPy reference of one call: for NumPy delegates, host calls and comparisons."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import numpy as np

from webpte.errors import GraphError, OutOfMemoryError, UnsupportedError
from webpte.format.vulkan import SymIntValue
from webpte.graph.graph import Call, Graph, Tensor
from webpte.graph.live_state import LiveState
from webpte.ops import OpDef
from webpte.plan.planner import check_bounds, located_at, resize_outputs
from webpte.rewrite.dataflow import Dataflow
from webpte.shapes import Dims, numel

Size = Dims | int | None


def _machine_memory() -> int:
    """Return the bytes of memory, as far as Python can see and address them."""
    if sys.maxsize < 1 << 32 or not hasattr(os, "sysconf"):
        return min(sys.maxsize, 1 << 36)
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


# The limit for the arrays of one execution: beyond it the process would be killed without an error.
MEMORY_LIMIT = _machine_memory()


class CheckedCalls:
    """The calls of a graph that were checked, with the sizes of their arguments and results.

    A run that repeats these sizes needs no shape functions and no checks of the arguments.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._given: dict[int, list[int]] = {}
        self._made: dict[int, list[int]] = {}
        self._found: dict[int, tuple[list[Size], list[Dims]]] = {}

    def repeat(self, call: Call, live: LiveState) -> bool:
        """Set the live dims of the results, if the arguments have the sizes that were checked."""
        found = self._found.get(id(call))
        if found is None or found[0] != [self._size(i, live) for i in self._given[id(call)]]:
            return False
        for value_id, dims in zip(self._made[id(call)], found[1], strict=True):
            live.set_cur_dims(value_id, dims)
        return True

    def add(self, call: Call, live: LiveState) -> None:
        """Remember the present sizes of a call that was checked."""
        key = id(call)  # which stays: the graph keeps its calls
        if key not in self._given:
            calls = (*call.parts, call)
            made = {i for each in calls for i in self._tensors(each.args[-1:])}
            given = {i for each in calls for i in self._graph.expand(each.args)} - made
            self._given[key], self._made[key] = sorted(given), sorted(made)
        sizes = [self._size(i, live) for i in self._given[key]]
        self._found[key] = sizes, [live.cur_dims(i) for i in self._made[key]]

    def _tensors(self, value_ids: tuple[int, ...]) -> Iterator[int]:
        values = self._graph.expand(value_ids)
        return (i for i in values if isinstance(self._graph.value(i), Tensor))

    def _size(self, value_id: int, live: LiveState) -> Size:
        value = self._graph.value(value_id)
        if isinstance(value, Tensor):
            return live.cur_dims(value_id)
        return live.symint(value_id) if isinstance(value, SymIntValue) else None


def run_reference(
    op: OpDef,
    call: Call,
    graph: Graph,
    live: LiveState,
    arrays: dict[int, np.ndarray],
    room: int | None = None,
    checked: CheckedCalls | None = None,
) -> int:
    """Run one call on arrays by value id, and add its outputs to them.

    Returns the bytes of the outputs. More than `room` (by default the memory limit) are refused
    before anything is computed. Checks that `checked` knows are not repeated.
    """
    with located_at(call):
        given = {i: _widened(arrays[i]) for i in graph.expand(call.args) if i in arrays}
        args = op.bind(call, graph, live, given)
        if op.scalar is not None:
            args.set_symint_out(op.scalar(args))
            return 0
        repeated = checked is not None and checked.repeat(call, live)
        if not repeated:
            resize_outputs(op, args, live)
        room = MEMORY_LIMIT if room is None else room
        nbytes = sum(numel(out.dims) * out.dtype.itemsize for out in args.outs)
        if nbytes > room:
            raise OutOfMemoryError(
                f"the outputs have {nbytes:,} bytes, but {max(room, 0):,} are left of "
                f"{MEMORY_LIMIT:,} for the arrays of one run"
            )
        check_bounds(op.bounds(args), live)
        if not repeated:
            with contextlib.suppress(UnsupportedError):
                op.lower(args)  # pure; run for its checks of the arguments
            if checked is not None:
                checked.add(call, live)
        with np.errstate(all="ignore"):
            results = op.reference(args)
            if isinstance(results, np.ndarray | np.generic):
                results = [np.asarray(results)]
            for out, result in zip(args.outs, results, strict=True):
                dims = live.cur_dims(out.id)
                arrays[out.id] = _checked(str(call), result, graph.tensor(out.id), dims)
            for value_id in Dataflow.of(graph).changes(call):
                arrays[value_id][...] = given[value_id]
    return nbytes


def _widened(array: np.ndarray) -> np.ndarray:
    """Widen f16 to float32, in which kernels compute; NumPy would round each intermediate."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _checked(where: str, result: np.ndarray, tensor: Tensor, dims: tuple[int, ...]) -> np.ndarray:
    """Check the result's shape against the shape function, and cast it to the tensor's dtype."""
    if result.shape != dims:
        raise GraphError(
            f"{where}: the reference returns {list(result.shape)}, the shape function {list(dims)}"
        )
    if tensor.dtype.name == "bool":
        return result.astype(np.bool_)
    return result.astype(tensor.dtype.numpy, casting="same_kind", copy=False)
