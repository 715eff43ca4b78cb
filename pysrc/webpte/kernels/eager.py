"""Run the NumPy reference of one op on plain values, by way of a graph of one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.dtypes import DTYPES, DType
from webpte.errors import GraphError
from webpte.format.vulkan import (
    BoolValue,
    DoubleListValue,
    DoubleValue,
    IntListValue,
    IntValue,
    NullValue,
    StringValue,
    ValueListValue,
)
from webpte.graph import Call, Graph, Tensor, Value
from webpte.live import LiveState
from webpte.ops import lookup
from webpte.shapes import Dims


def run_op(
    name: str, values: Sequence[Any], outs: Sequence[tuple[DType, Dims]]
) -> list[np.ndarray]:
    """The outputs of op `name`; `outs` are their dtypes and largest sizes."""
    op = lookup(name)
    assert op is not None
    builder = _Builder()
    ids = [builder.add(value) for value in values]
    out_ids = [builder.tensor(dtype, dims) for dtype, dims in outs]
    last = out_ids[0] if op.signature.output == "tensor" else builder.value_list(out_ids)
    call = Call(0, name, (*ids, last))
    graph = Graph(tuple(builder.values), (call,), (), tuple(out_ids))
    live = LiveState(graph)
    args = op.bind(call, graph, live, builder.arrays)
    for out, dims in zip(args.outs, op.shape(args), strict=True):
        live.set_cur_dims(out.id, tuple(dims))
    op.bounds(args)  # raises for a number out of range; there are no SymInts here
    with np.errstate(all="ignore"):
        results = op.reference(args)
    return [results] if isinstance(results, np.ndarray | np.generic) else list(results)


class _Builder:
    """Values of a graph from Python values."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.arrays: dict[int, np.ndarray] = {}

    def _append(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def tensor(self, dtype: DType, dims: Dims) -> int:
        return self._append(Tensor(len(self.values), dtype, dims, None, None))

    def value_list(self, ids: Sequence[int]) -> int:
        return self._append(ValueListValue(tuple(ids)))

    def add(self, value: Any) -> int:
        if isinstance(value, np.ndarray):
            value_id = self.tensor(DTYPES[value.dtype.name], value.shape)
            self.arrays[value_id] = value
            return value_id
        if isinstance(value, list | tuple):
            return self._add_list(value)
        if value is None:
            return self._append(NullValue())
        if isinstance(value, bool):
            return self._append(BoolValue(value))
        if isinstance(value, int):
            return self._append(IntValue(value))
        if isinstance(value, float):
            return self._append(DoubleValue(value))
        if isinstance(value, str):
            return self._append(StringValue(value))
        raise GraphError(f"an operator cannot take a {type(value).__name__}")

    def _add_list(self, items: Sequence[Any]) -> int:
        if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            return self._append(IntListValue(tuple(items)))
        if all(isinstance(item, float) for item in items):
            return self._append(DoubleListValue(tuple(items)))
        return self.value_list([self.add(item) for item in items])
