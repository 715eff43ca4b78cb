"""SymInts of a plan as expressions of its inputs, which a page computes in each call.

    7                          a constant
    ["element", 1, 0]          element 0 of input 1, counted over the whole tensor
    ["number", 2]              input 2, which is a number itself
    ["add", A, B]              also sub, mul, and floordiv, which rounds down

Sizes are constants, because a plan is for fixed shapes of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.move.symint import ARITHMETIC
from webpte.engine.plan.planner import PlannedCall
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.shapes import normalize_index, numel
from webpte.errors import UnsupportedError

Expression = int | list[Any]


def symint_expressions(delegate: GpuDelegate) -> dict[int, Expression]:
    """Return an expression for each SymInt that a delegate's calls use, at the live shapes."""
    graph, live = delegate.graph, delegate.live
    found = _given(delegate)
    read = set[int]()
    for planned in delegate.planner.calls:
        *arguments, out = planned.call.args
        if planned.op.scalar is not None and out not in found:
            if out in read:
                raise UnsupportedError(
                    f"{planned.call}: computes SymInt value {out} after another call reads it"
                )
            found[out] = _computed(planned, graph, live, found)
        read |= {i for i in graph.expand(tuple(arguments)) if graph.is_symint(i)}
    return {i: found.get(i, live.symint(i)) for i in delegate.symints} | found


def _given(delegate: GpuDelegate) -> dict[int, Expression]:
    """Return the expressions of the SymInts that inputs contain."""
    inputs = delegate.graph.inputs
    numbers = (place for place, i in enumerate(inputs) if delegate.graph.is_symint(i))
    found: dict[int, Expression] = {inputs[place]: ["number", place] for place in numbers}
    for source in delegate.symint_sources:
        dims, element = delegate.live.cur_dims(source.input), 0
        if dims:
            at = normalize_index(source.index, dims[source.dim])
            element = at * numel(dims[source.dim + 1 :])
        found[source.symint] = ["element", inputs.index(source.input), element]
    return found


def _computed(
    planned: PlannedCall, graph: Graph, live: LiveState, known: Mapping[int, Expression]
) -> Expression:
    """Return the expression of a call that computes a SymInt of others, or of sizes."""
    if planned.op.name not in ARITHMETIC:
        return live.symint(planned.call.args[-1])
    args = planned.op.bind(planned.call, graph, live)
    sides: list[Expression] = []
    for name, value_id in zip(("a", "b"), planned.call.args, strict=False):
        side = known.get(value_id) if graph.is_symint(value_id) else None
        sides.append(args.integer(name) if side is None else side)
    if all(isinstance(side, int) for side in sides):
        return live.symint(planned.call.args[-1])
    return [planned.op.name, *sides]
