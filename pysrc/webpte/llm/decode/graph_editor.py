"""Builds a copy of a graph with values and calls appended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from webpte.engine.dtypes import DTYPES
from webpte.engine.format.vulkan import IntListValue, IntValue, NullValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.shapes import Dims


class GraphEditor:
    """A copy of a graph that starts with the graph's values and without calls."""

    def __init__(self, graph: Graph) -> None:
        self.values: list[Value] = list(graph.values)
        self.calls: list[Call] = []

    def _add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def tensor(self, dims: Dims, like: Tensor) -> int:
        """Add a tensor with the dtype of another tensor; return its id."""
        return self._add(Tensor(len(self.values), like.dtype, dims, None, None))

    def words(self, dims: Dims) -> int:
        """Add a tensor of int32."""
        return self._add(Tensor(len(self.values), DTYPES["int32"], dims, None, None))

    def integer(self, value: int) -> int:
        return self._add(IntValue(value))

    def integers(self, values: Dims) -> int:
        return self._add(IntListValue(values))

    def null(self) -> int:
        return self._add(NullValue())

    def call(self, name: str, *args: int) -> None:
        """Add a call of an operator; the last of the arguments is its output."""
        self.calls.append(Call(len(self.calls), name, args))

    def keep(self, call: Call, **changes: Any) -> None:
        """Add a call of the original graph, perhaps with changes."""
        self.calls.append(replace(call, index=len(self.calls), **changes))
