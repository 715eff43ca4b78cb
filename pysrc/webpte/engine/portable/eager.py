"""Runs the NumPy reference of an op on plain values, through a graph with a single call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.engine.dtypes import DTYPES, DType
from webpte.engine.graph.graph import Call, Graph
from webpte.engine.graph.graph_writer import GraphWriter
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import OpDef, lookup
from webpte.engine.shapes import Dims


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


class CallBuilder(GraphWriter):
    """Builder of a graph with a single call from Python values and the `arrays` of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[int] = []
        self.arrays: dict[int, np.ndarray] = {}

    def graph(self, op: OpDef, values: Sequence[Any], outs: Sequence[tuple[DType, Dims]]) -> Graph:
        ids = [self.add(value) for value in values]
        given = [self.tensor(dtype, dims) for dtype, dims in outs]
        last = given[0] if op.signature.output == "tensor" else self.value_list(given)
        self.calls.append(Call(0, op.name, (*ids, last)))
        return self.written(self.inputs, given)

    def add(self, value: Any) -> int:
        if not isinstance(value, np.ndarray):
            return super().add(value)
        value_id = self.tensor(DTYPES[value.dtype.name], value.shape)
        self.arrays[value_id] = value
        return value_id
