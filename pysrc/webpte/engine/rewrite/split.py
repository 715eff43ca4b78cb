"""Splits constants that are too large for a GPU buffer, and the calls that read them.

A phone's GPU binds 128 MiB at once, which the head or the embedding of a language model can exceed.
Such a constant becomes several constants with some of its rows each: ranges of the file's bytes.
`split_rules` rewrites the calls. All readers of a constant share its parts, in every method.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from webpte.engine.files.source import ColumnSource, Region
from webpte.engine.format.vulkan import IntValue, ValueListValue
from webpte.engine.graph.graph import PREPACK, Call, Constant, Graph, Tensor, Value
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import definition_of
from webpte.engine.ops.core.args import Args
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import constant_transfers
from webpte.engine.shapes import Dims, numel

# Rows per part are a multiple of the first of these numbers that the limit allows: whole tiles of
# GEMMs, then whole quads, which faster kernels need.
ROW_STEPS = (64, 4, 1)

Ranges = tuple[tuple[int, int], ...]


def row_ranges(rows: int, most: int) -> Ranges:
    """Return ranges of at most `most` rows, as few and as even as possible."""
    step = next(step for step in ROW_STEPS if step <= most)
    most = most // step * step
    parts = -(-rows // most)
    size = -(-rows // (parts * step)) * step
    return tuple((first, min(first + size, rows)) for first in range(0, rows, size))


@dataclass(frozen=True)
class RowOperand:
    """A constant argument with `rows` rows, which are split."""

    tensor: Tensor
    rows: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on the GPU."""
        return self.tensor.storage_bytes // self.rows


class GraphSplitter:
    """A graph that is being rewritten: values and calls are appended, shared parts found again."""

    def __init__(self, graph: Graph, most_bytes: int) -> None:
        self.graph = graph
        self.flow = Dataflow.of(graph)
        self.most_bytes = most_bytes
        self.values: list[Value] = list(graph.values)
        self.calls: list[Call] = []
        self._live = LiveState(graph)
        written = self.flow.volatile | set(graph.inputs)
        transfers = constant_transfers(graph)
        self._constants = {t.target.id: t.constant for t in transfers if t.target.id not in written}
        self.oversized = {i for i in self._constants if graph.tensor(i).storage_bytes > most_bytes}
        self._ranges: dict[Region, Ranges] = {}
        self._parts: dict[tuple[object, ...], int] = {}

    # Arguments of calls

    def args_of(self, call: Call) -> Args:
        op = definition_of(call)
        assert op is not None, "see check_arity"
        return op.bind(call, self.graph, self._live)

    def is_constant(self, value_id: int) -> bool:
        return value_id in self._constants

    def ranges(self, operand: RowOperand) -> Ranges | None:
        """Return the rows of each part, the same for all readers of this constant.

        None if even one row is too large.
        """
        region = self._constants[operand.tensor.id].region
        most = self.most_bytes // max(operand.row_bytes, 1)
        if region not in self._ranges:
            if most == 0:
                return None
            self._ranges[region] = row_ranges(operand.rows, most)
        found = self._ranges[region]
        fits = all(last - first <= most for first, last in found)
        return found if fits and found[-1][1] == operand.rows else None

    # New calls and values

    def rows(self, value_id: int, first: int, last: int, dims: Dims) -> int:
        """Return the value with the elements of these rows, in the shape `dims`.

        `first` and `last` are counted in rows of `numel(dims) / (last - first)` elements.
        """
        tensor, constant = self.graph.tensor(value_id), self._constants[value_id]
        key = (constant.region, tensor.dtype, dims, first, last)
        if key not in self._parts:
            row = numel(dims) // (last - first) * tensor.dtype.itemsize
            region = constant.region.part(first * row, (last - first) * row)
            self._parts[key] = self._constant(tensor, dims, replace(constant, region=region))
        return self._parts[key]

    def columns(self, value_id: int, first: int, last: int) -> int:
        """Return the value of some columns of a constant matrix."""
        tensor, constant = self.graph.tensor(value_id), self._constants[value_id]
        rows, columns = tensor.dims
        key = (constant.region, tensor.dtype, tensor.dims, "columns", first, last)
        if key not in self._parts:
            size = tensor.dtype.itemsize
            whole = constant.region.head(tensor.file_bytes)
            source = ColumnSource(whole, columns * size, first * size, (last - first) * size)
            part = Constant(Region(source, 0, source.size), None)
            self._parts[key] = self._constant(tensor, (rows, last - first), part)
        return self._parts[key]

    def _constant(self, like: Tensor, dims: Dims, constant: Constant) -> int:
        return self._append(replace(like, dims=dims, constant=constant, mem_obj_id=None))

    def like(self, value_id: int, dims: Dims) -> int:
        """Return a new tensor of the same type for results, with `dims` as its largest size."""
        tensor = self.graph.tensor(value_id)
        return self._append(replace(tensor, dims=dims, constant=None, mem_obj_id=None))

    def _append(self, tensor: Tensor) -> int:
        return self.value(replace(tensor, id=len(self.values)))

    def value(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def integer(self, value: int) -> int:
        return self.value(IntValue(value))

    def list_of(self, ids: Iterable[int]) -> int:
        return self.value(ValueListValue(tuple(ids)))

    def add(self, original: Call, name: str, args: tuple[int, ...]) -> None:
        """Append a call that does a part of the work of the original call."""
        self.calls.append(
            Call(len(self.calls), name, args, original.kernel, original.place or str(original))
        )

    def keep(self, call: Call) -> None:
        self.calls.append(replace(call, index=len(self.calls)))

    def result(self) -> Graph:
        """Return the graph without the prepacks of constants that have lost all readers."""
        read = {i for call in self.calls if call.name != PREPACK for i in self._expanded(call.args)}
        unread = self.flow.used - read - set(self.graph.outputs)
        kept = [c for c in self.calls if c.name != PREPACK or c.args[-1] not in unread]
        calls = tuple(replace(call, index=index) for index, call in enumerate(kept))
        calls = tuple(_with_parts_at(call) for call in calls)
        return Graph(tuple(self.values), calls, self.graph.inputs, self.graph.outputs)

    def _expanded(self, ids: Collection[int]) -> Iterable[int]:
        for value_id in ids:
            yield value_id
            value = self.values[value_id]
            if isinstance(value, ValueListValue):
                yield from value.items


def _with_parts_at(call: Call) -> Call:
    """Give the parts of a call its index: kernels note an index out of range under this number."""
    if not call.parts:
        return call
    return replace(call, parts=tuple(replace(part, index=call.index) for part in call.parts))
