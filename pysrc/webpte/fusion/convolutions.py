"""The rule for residual networks; see ops/fused_conv.py."""

from __future__ import annotations

from webpte.fusion.core import Calls, Found
from webpte.fusion.products import ADD, is_one
from webpte.graph import Call
from webpte.ops.fused_conv import CLAMPS, CONV_ADD, CONVOLUTION, RELU


def add_after_conv(calls: Calls, call: Call) -> Found | None:
    """convolution, add, and relu or a clamp if that is all that reads the sum."""
    if call.name != CONVOLUTION:
        return None
    addition = calls.only_reader(call.args[-1])
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return None
    if addition.args[0] == addition.args[1]:
        return None
    last = calls.only_reader(addition.args[-1])
    if last is not None and last.name in {RELU, *CLAMPS}:
        return Found(CONV_ADD, (call, addition, last), (last.args[-1],))
    return Found(CONV_ADD, (call, addition), (addition.args[-1],))
