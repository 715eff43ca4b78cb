"""Live state of a graph: dims of tensors, values of SymInts, and the set of dirty values.

Tensors are allocated for their largest size (`Tensor.dims`), and filled densely at their live size
(`cur_dims`). Setting a value to its present value marks nothing dirty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from webpte.engine.dtypes import INT32_MAX, INT32_MIN
from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.graph.graph import Graph
from webpte.engine.shapes import Dims, fits, numel
from webpte.errors import ResizeError


@dataclass(frozen=True)
class Snapshot:
    """The state of a graph at one moment, to switch back to."""

    cur_dims: dict[int, Dims]
    symints: dict[int, int]


class LiveState:
    """Live dims and SymInts of a graph. They start at the maximum that the file declares."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._cur_dims: dict[int, Dims] = {tensor.id: tensor.dims for tensor in graph.tensors()}
        self._symints: dict[int, int] = {
            value_id: value.value
            for value_id, value in enumerate(graph.values)
            if isinstance(value, SymIntValue)
        }
        self._dirty: set[int] = set()
        self._undo: list[Callable[[], None]] = []

    def cur_dims(self, value_id: int) -> Dims:
        dims = self._cur_dims.get(value_id)
        return self._graph.tensor(value_id).dims if dims is None else dims

    def set_cur_dims(self, value_id: int, dims: Dims) -> None:
        """Resize a tensor: same rank, at most as many elements as its maximum; 0 is allowed."""
        if self._cur_dims.get(value_id) == dims:
            return
        maximum = self._graph.tensor(value_id).dims
        if len(dims) != len(maximum):
            raise ResizeError(
                f"tensor value {value_id} has rank {len(maximum)}, not {len(dims)}: "
                f"{list(dims)} for {list(maximum)}"
            )
        if not fits(dims, maximum):
            raise ResizeError(
                f"tensor value {value_id}: {list(dims)} does not fit into its maximum "
                f"{list(maximum)}: {numel(dims)} elements, with memory for {numel(maximum)}"
            )
        if self._graph.tensor(value_id).exact and dims != maximum:
            raise ResizeError(
                f"a result has shape {list(dims)}, but its output has exactly {list(maximum)}"
            )
        old = self._cur_dims[value_id]
        self._undo.append(lambda: self._cur_dims.__setitem__(value_id, old))
        self._cur_dims[value_id] = dims
        self._dirty.add(value_id)

    def symint(self, value_id: int) -> int:
        value = self._symints.get(value_id)
        return self._graph.symint(value_id).value if value is None else value

    def set_symint(self, value_id: int, value: int) -> None:
        old = self.symint(value_id)
        if old == value:
            return
        if not INT32_MIN <= value <= INT32_MAX:
            raise ResizeError(f"SymInt value {value_id}: {value} does not fit into 32 bits")
        self._undo.append(lambda: self._symints.__setitem__(value_id, old))
        self._symints[value_id] = value
        self._dirty.add(value_id)

    def begin(self) -> None:
        """Start a transaction, which `rollback` undoes."""
        self._undo = []

    def rollback(self) -> None:
        """Undo everything since `begin`; nothing is dirty afterwards."""
        for undo in reversed(self._undo):
            undo()
        self._undo, self._dirty = [], set()

    @property
    def dirty(self) -> frozenset[int]:
        return frozenset(self._dirty)

    def take_dirty(self) -> set[int]:
        """Return the dirty values and clear the set."""
        taken, self._dirty = self._dirty, set()
        return taken

    def snapshot(self) -> Snapshot:
        return Snapshot(dict(self._cur_dims), dict(self._symints))

    def restore(self, snapshot: Snapshot) -> None:
        """Switch to `snapshot`; nothing is dirty afterwards."""
        before = (self._cur_dims, self._symints)
        self._undo.append(lambda: self._set(*before))
        self._set(dict(snapshot.cur_dims), dict(snapshot.symints))
        self._dirty = set()

    def _set(self, cur_dims: dict[int, Dims], symints: dict[int, int]) -> None:
        self._cur_dims, self._symints = cur_dims, symints
