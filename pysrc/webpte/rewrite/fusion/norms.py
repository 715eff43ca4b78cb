"""The rule for batch normalization that exporters left over; see ops/norm/fused_norm.py."""

from __future__ import annotations

from webpte.graph.graph import Call
from webpte.ops.norm.fused_norm import ACTIVATION_BATCH_NORM, ACTIVATIONS, BATCH_NORM
from webpte.rewrite.fusion.engine import Calls, Match


def activation_batch_norm(calls: Calls, call: Call) -> Match | None:
    """relu or such that only a batch normalization reads."""
    if call.name != BATCH_NORM:
        return None
    bend = calls.writer(calls.argument(call, "input"))
    if bend is None or bend.name not in ACTIVATIONS:
        return None
    return Match(ACTIVATION_BATCH_NORM, (bend, call), calls.graph.value_list(call.args[-1]))
