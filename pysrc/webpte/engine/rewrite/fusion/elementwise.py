"""The rule for chains of elementwise ops; see ops/elementwise/fused_elementwise.py."""

from __future__ import annotations

from webpte.engine.graph.graph import Call, Tensor
from webpte.engine.ops.elementwise.fused_elementwise import (
    ELEMENTWISE,
    MAX_INPUTS,
    MAX_STEPS,
    NAMES,
)
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.shapes import numel


@rule(10, round=2)
def elementwise_chain(calls: Calls, call: Call) -> Match | None:
    """Match a chain of element-wise ops by its last op; no other call reads inner results."""
    out = call.args[-1]
    if not _is_plain(calls, call):
        return None
    parts = {call.index: call}
    inputs = set(calls.flow.reads(call))
    while True:
        found = next((w for i in inputs if (w := _absorbed(calls, i, out, parts))), None)
        if found is None:
            break
        rest = (inputs - {found.args[-1]}) | set(calls.flow.reads(found))
        if len(rest) > MAX_INPUTS or len(parts) == MAX_STEPS:
            break
        parts[found.index], inputs = found, rest
    if len(parts) < 2:
        return None
    return Match(ELEMENTWISE, tuple(parts[i] for i in sorted(parts)), (out,))


def _is_plain(calls: Calls, call: Call) -> bool:
    """Return whether operands are floats of the output's type, of its size or single elements."""
    if call.name not in NAMES:
        return False
    out = calls.graph.value(call.args[-1])
    tensors = [calls.graph.tensor(i) for i in calls.flow.reads(call)]
    return isinstance(out, Tensor) and all(
        t.dtype == out.dtype and t.dtype.is_float and numel(t.dims) in (1, numel(out.dims))
        for t in tensors
    )


def _absorbed(calls: Calls, value_id: int, out: int, parts: dict[int, Call]) -> Call | None:
    """Return the call that writes a value, if it can join these parts."""
    writer = calls.writer(value_id)
    if writer is None or writer.index in parts or not _is_plain(calls, writer):
        return None
    readers = {reader.index for reader in calls.readers(value_id)}
    alone = readers <= parts.keys() and value_id not in calls.graph.outputs
    dims = calls.graph.tensor(value_id).dims
    same = numel(dims) == numel(calls.graph.tensor(out).dims)
    return writer if alone and same else None
