"""Writer of graphs: calls with plain Python values as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webpte.engine.dtypes import DType
from webpte.engine.format.vulkan import (
    BoolValue,
    DoubleListValue,
    DoubleValue,
    IntListValue,
    IntValue,
    NullValue,
    StringValue,
    SymIntValue,
    ValueListValue,
)
from webpte.engine.graph.graph import Call, Constant, Graph, Tensor, Value
from webpte.engine.shapes import Dims
from webpte.errors import GraphError


@dataclass(frozen=True, slots=True)
class LiveSize:
    """The live size of a dim of a tensor, by the id of its value."""

    id: int


class GraphWriter:
    """Writer of a graph from tensors and Python values."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.calls: list[Call] = []

    def written(self, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
        """Return the graph, with these ids as its inputs and outputs."""
        return Graph(tuple(self.values), tuple(self.calls), tuple(inputs), tuple(outputs))

    def append(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def tensor(self, dtype: DType, dims: Dims, constant: Constant | None = None) -> int:
        return self.new_tensor(dtype, dims, constant).id

    def new_tensor(self, dtype: DType, dims: Dims, constant: Constant | None = None) -> Tensor:
        made = Tensor(len(self.values), dtype, dims, constant, None)
        self.values.append(made)
        return made

    def value_list(self, ids: Sequence[int]) -> int:
        return self.append(ValueListValue(tuple(ids)))

    def live_size(self, tensor: Tensor, dim: int) -> LiveSize:
        """Append the call that finds the size of a dim in each run."""
        made = LiveSize(self.append(SymIntValue(tensor.dims[dim])))
        self.call("sym_size.int", (tensor, dim), made)
        return made

    def call(
        self, name: str, args: Sequence[Any], out: Tensor | LiveSize | Sequence[Tensor]
    ) -> None:
        """Append a call whose output is a tensor, a size, or a list of tensors."""
        ids = [self.add(value) for value in args]
        last = (
            out.id if isinstance(out, Tensor | LiveSize) else self.value_list([t.id for t in out])
        )
        index = len(self.calls)
        self.calls.append(Call(index, name, (*ids, last), origin=index))

    def add(self, value: Any) -> int:
        """Return the id of a tensor, or of a new value that holds a Python value."""
        if isinstance(value, Tensor | LiveSize):
            return value.id
        if isinstance(value, list | tuple):
            return self._add_list(value)
        if value is None:
            return self.append(NullValue())
        if isinstance(value, bool):
            return self.append(BoolValue(value))
        if isinstance(value, int):
            return self.append(IntValue(value))
        if isinstance(value, float):
            return self.append(DoubleValue(value))
        if isinstance(value, str):
            return self.append(StringValue(value))
        raise GraphError(f"an operator cannot take a {type(value).__name__}")

    def _add_list(self, items: Sequence[Any]) -> int:
        if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            return self.append(IntListValue(tuple(items)))
        if all(isinstance(item, float) for item in items):
            return self.append(DoubleListValue(tuple(items)))
        return self.value_list([self.add(item) for item in items])
