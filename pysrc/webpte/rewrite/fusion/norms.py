"""The rule for batch normalization that exporters kept; see ops/norm/fused_norm.py."""

from __future__ import annotations

from webpte.graph.graph import Call
from webpte.ops.elementwise.unary import ACTIVATIONS
from webpte.ops.norm.fused_norm import ACTIVATION_BATCH_NORM, BATCH_NORM
from webpte.rewrite.fusion.engine import Calls, Match


def activation_batch_norm(calls: Calls, call: Call) -> Match | None:
    """Match an activation and the batch normalization that is its only reader."""
    if call.name != BATCH_NORM:
        return None
    activation = calls.writer(calls.argument(call, "input"))
    if activation is None or activation.name not in ACTIVATIONS:
        return None
    return Match(ACTIVATION_BATCH_NORM, (activation, call), calls.graph.value_list(call.args[-1]))
