"""The rules for normalizations; see ops/norm/fused_norm.py."""

from __future__ import annotations

from webpte.engine.graph.graph import Call
from webpte.engine.ops.elementwise.unary import ACTIVATIONS
from webpte.engine.ops.norm.fused_norm import (
    ACTIVATION_BATCH_NORM,
    ADD,
    BATCH_NORM,
    NORM_ADD,
    RMS_NORM,
)
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.rewrite.fusion.linear_q4 import is_one


@rule(130)
def add_after_norm(calls: Calls, call: Call) -> Match | None:
    """Match an RMS norm, views and the sum that is its only reader."""
    if call.name != RMS_NORM:
        return None
    addition, views = calls.sole_user(call.args[-1])
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return None
    if addition.args[0] == addition.args[1]:
        return None
    return Match(NORM_ADD, (call, *views, addition), (addition.args[-1],))


@rule(120)
def activation_batch_norm(calls: Calls, call: Call) -> Match | None:
    """Match an activation and the batch normalization that is its only reader."""
    if call.name != BATCH_NORM:
        return None
    activation = calls.writer(calls.argument(call, "input"))
    if activation is None or activation.name not in ACTIVATIONS:
        return None
    return Match(ACTIVATION_BATCH_NORM, (activation, call), calls.graph.value_list(call.args[-1]))
