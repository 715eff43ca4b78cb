"""Runs the NumPy reference of an op on plain values, through a graph with a single call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.engine.dtypes import DTYPES, DType
from webpte.engine.format.vulkan import (
    BoolValue,
    DoubleListValue,
    DoubleValue,
    IntListValue,
    IntValue,
    NullValue,
    StringValue,
    ValueListValue,
)
from webpte.engine.graph.graph import Call, Constant, Graph, Tensor, Value
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import OpDef, lookup
from webpte.engine.shapes import Dims
from webpte.errors import GraphError


def run_op(
    name: str, values: Sequence[Any], outs: Sequence[tuple[DType, Dims]]
) -> list[np.ndarray]:
    """Return the outputs of op `name`; `outs` are their dtypes and largest sizes."""
    op = lookup(name)
    assert op is not None
    builder = CallBuilder()
    graph = builder.graph(op, values, outs)
    live = LiveState(graph)
    args = op.bind(graph.calls[0], graph, live, builder.arrays)
    for out, dims in zip(args.outs, op.shape(args), strict=True):
        live.set_cur_dims(out.id, tuple(dims))
    op.bounds(args)  # raises for a number out of range; there are no SymInts here
    with np.errstate(all="ignore"):
        results = op.reference(args)
    return [results] if isinstance(results, np.ndarray | np.generic) else list(results)


class CallBuilder:
    """Builder of a graph with a single call from Python values and the `arrays` of tensors."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.inputs: list[int] = []
        self.arrays: dict[int, np.ndarray] = {}

    def graph(self, op: OpDef, values: Sequence[Any], outs: Sequence[tuple[DType, Dims]]) -> Graph:
        ids = [self.add(value) for value in values]
        out_ids = [self.tensor(dtype, dims) for dtype, dims in outs]
        last = out_ids[0] if op.signature.output == "tensor" else self.value_list(out_ids)
        call = Call(0, op.name, (*ids, last))
        return Graph(tuple(self.values), (call,), tuple(self.inputs), tuple(out_ids))

    def append(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def tensor(self, dtype: DType, dims: Dims, constant: Constant | None = None) -> int:
        return self.append(Tensor(len(self.values), dtype, dims, constant, None))

    def value_list(self, ids: Sequence[int]) -> int:
        return self.append(ValueListValue(tuple(ids)))

    def add(self, value: Any) -> int:
        if isinstance(value, np.ndarray):
            value_id = self.tensor(DTYPES[value.dtype.name], value.shape)
            self.arrays[value_id] = value
            return value_id
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
