"""The rule for calls after a quantized linear layer: ops/gemm/fused_linear_epilogue.py."""

from __future__ import annotations

from webpte.engine.graph.graph import Call
from webpte.engine.ops.elementwise.unary import ACTIVATIONS
from webpte.engine.ops.gemm.fused_linear_epilogue import ADD, LINEAR_EPILOGUE
from webpte.engine.ops.gemm.fused_linear_q4 import LINEAR_OF
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.rewrite.fusion.heads import before_bias, has_bias
from webpte.engine.rewrite.fusion.linear_q4 import is_one, prologue_before


@rule(60)
def linear_epilogue(calls: Calls, call: Call) -> Match | None:
    """Match a quantized linear layer, and a bias, an activation and a residual after it.

    A residual alone, without a bias, is left to `add_after_gemm`.
    """
    if call.name not in LINEAR_OF:
        return None
    steps: list[Call] = []
    found = dict.fromkeys(("bias", "activation", "residual"), False)
    found["bias"] = has_bias(calls, call)
    last = call
    while True:
        reader, views = calls.sole_user(last.args[-1])
        kind = None if reader is None else _kind(calls, reader, found)
        if reader is None or kind is None:
            break
        found[kind] = True
        steps += [*views, reader]
        last = reader
    added = [step for step in steps if not calls.is_view(step)]
    if not added or not (found["bias"] or found["activation"]):
        return None
    before = prologue_before(calls, [call], centered=True)
    if before is None:
        return None
    return Match(LINEAR_EPILOGUE, (*before, call, *steps), (last.args[-1],))


def _kind(calls: Calls, call: Call, found: dict[str, bool]) -> str | None:
    """Return the call's role in the epilogue; None if the epilogue ends before the call."""
    if found["residual"]:
        return None
    if call.name in ACTIVATIONS and not found["activation"]:
        return "activation"
    if call.name != ADD or call.args[0] == call.args[1] or not is_one(calls, call, "alpha"):
        return None
    if not found["activation"] and not found["bias"] and before_bias(calls, call) is not None:
        return "bias"
    return "residual"
