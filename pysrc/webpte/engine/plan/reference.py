"""The NumPy reference of a call: for NumPy delegates, host calls and comparisons."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NamedTuple

import numpy as np

from webpte.engine.dtypes import BFLOAT16
from webpte.engine.graph.graph import Call, Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import OpDef
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.plan.planner import check_bounds, located_at, resize_outputs
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError, OutOfMemoryError, UnsupportedError

Size = Dims | int | None


def _machine_memory() -> int:
    """Return the bytes of memory, as far as Python can see and address them."""
    if sys.maxsize < 1 << 32 or not hasattr(os, "sysconf"):
        return min(sys.maxsize, 1 << 36)
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


# The limit for the arrays of an execution: beyond it the process would be killed without an error.
MEMORY_LIMIT = _machine_memory()


class _Sizes(NamedTuple):
    """The sizes of a call's arguments and results, and the bytes of the results."""

    given: list[Size]
    made: list[Dims]
    nbytes: int


class CheckedCalls:
    """The calls of a graph that were checked, with the sizes of their arguments and results.

    A run that repeats these sizes needs no shape functions and no checks of the arguments. SymInts
    that kernels read live may differ (see `Args`): their bounds are checked anyway.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._given: dict[int, list[int]] = {}
        self._made: dict[int, list[int]] = {}
        self._found: dict[int, _Sizes] = {}

    def repeat(self, call: Call, live: LiveState) -> int | None:
        """Set the live dims of the results, if the arguments have the checked sizes.

        Returns the bytes of the results, or None if the call must be checked.
        """
        found = self._found.get(id(call))
        if found is None or found.given != [self._size(i, live) for i in self._given[id(call)]]:
            return None
        for value_id, dims in zip(self._made[id(call)], found.made, strict=True):
            live.set_cur_dims(value_id, dims)
        return found.nbytes

    def add(self, args: Args, live: LiveState, nbytes: int) -> None:
        """Record the present sizes of a checked call."""
        call = args.call
        key = id(call)  # stays valid: the graph keeps its calls
        if key not in self._given:
            last = [i for each in (*call.parts, call) for i in each.args[-1:]]
            made = {i for i in self._graph.expand(tuple(last)) if self._is_tensor(i)}
            read = tuple(i for parameter, i in args.given if parameter.decides)
            ids = {*self._graph.expand(read)} - made
            sized = (i for i in ids if self._is_tensor(i) or self._graph.is_symint(i))
            self._given[key], self._made[key] = sorted(sized), sorted(made)
        sizes = [self._size(i, live) for i in self._given[key]]
        self._found[key] = _Sizes(sizes, [live.cur_dims(i) for i in self._made[key]], nbytes)

    def _is_tensor(self, value_id: int) -> bool:
        return isinstance(self._graph.value(value_id), Tensor)

    def _size(self, value_id: int, live: LiveState) -> Size:
        if isinstance(self._graph.values[value_id], Tensor):
            return live.cur_dims(value_id)
        return live.symint(value_id)


def run_reference(
    op: OpDef,
    call: Call,
    graph: Graph,
    live: LiveState,
    arrays: dict[int, np.ndarray],
    room: int | None = None,
    checked: CheckedCalls | None = None,
) -> int:
    """Run a call on arrays by value id, and add its outputs to the arrays.

    Returns the bytes of the outputs. More bytes than `room` (by default the memory limit) are
    refused before anything is computed. Checks that `checked` knows are not repeated.
    """
    with located_at(call):
        given = {i: _widened(arrays[i]) for i in graph.expand(call.args) if i in arrays}
        args = op.bind(call, graph, live, given)
        if op.scalar is not None:
            args.set_symint_out(op.scalar(args))
            return 0
        known = None if checked is None else checked.repeat(call, live)
        if known is None:
            resize_outputs(op, args, live)
        outs = args.outs
        nbytes = (
            sum(numel(out.dims) * out.dtype.itemsize for out in outs) if known is None else known
        )
        room = MEMORY_LIMIT if room is None else room
        if nbytes > room:
            raise OutOfMemoryError(
                f"the outputs have {nbytes:,} bytes, but {max(room, 0):,} are left of "
                f"{MEMORY_LIMIT:,} for the arrays of one run"
            )
        check_bounds(op.bounds(args), live)
        if known is None:
            with contextlib.suppress(UnsupportedError):
                op.lower(args)  # pure; run for its checks of the arguments
            if checked is not None:
                checked.add(args, live, nbytes)
        with np.errstate(all="ignore"):
            results = op.reference(args)
            if isinstance(results, np.ndarray | np.generic):
                results = [np.asarray(results)]
            for out, result in zip(outs, results, strict=True):
                arrays[out.id] = _checked(call, result, out)
            for value_id in Dataflow.of(graph).changes(call):
                arrays[value_id][...] = given[value_id]
    return nbytes


def _widened(array: np.ndarray) -> np.ndarray:
    """Widen f16 to float32, in which kernels compute; NumPy would round each intermediate."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _checked(call: Call, result: np.ndarray, out: TensorArg) -> np.ndarray:
    """Check the result's shape against the shape function, and cast it to the tensor's dtype."""
    if result.shape != out.dims:
        raise GraphError(
            f"{call}: the reference returns {list(result.shape)}, "
            f"the shape function {list(out.dims)}"
        )
    if out.dtype.name == "bool":
        return result.astype(np.bool_)
    if out.dtype.name == BFLOAT16:
        result = out.dtype.cast(result) if result.dtype.kind == "f" else result
    return result.astype(out.dtype.numpy, casting="same_kind", copy=False)
