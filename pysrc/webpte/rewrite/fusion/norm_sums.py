"""Rules for GEMVs of a sum with a normalized value; see ops/gemm/norm_sum.py.

Families with norms after attention and after the MLP (Gemma, OLMo) add their result to the
residual, and GEMVs read that sum. `of_sum` makes a rule that matches the sum as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.graph.graph import Call
from webpte.ops.attention.fused_attention import ATTENTION_BLOCK
from webpte.ops.attention.fused_head_attention import HEAD_ATTENTION
from webpte.ops.gemm.fused_linear_q4 import (
    GATED_GEMM,
    LINEAR_OF,
    QUANTIZED_INPUT_LINEARS,
    RMS_NORM,
)
from webpte.rewrite.fusion.engine import Calls, Match, Rule
from webpte.rewrite.fusion.linear_q4 import ADD, is_one

KINDS = frozenset({ATTENTION_BLOCK, HEAD_ATTENTION, GATED_GEMM})


def of_sum(rule: Rule) -> Rule:
    """Return a rule that matches what `rule` does, after an RMS norm and a sum with a residual."""

    def with_sum(calls: Calls, call: Call) -> Match | None:
        found = rule(calls, call)
        if found is None or found.op not in KINDS:
            return None
        names = [part.name in LINEAR_OF for part in found.parts]
        if not any(names):
            return None
        first = names.index(True)
        total = sum_before(calls, found.parts[first], found.parts[:first])
        if not total:
            return None
        addition = next(part for part in total if part.name == ADD)
        outputs = (addition.args[-1], *found.outputs)
        return replace(found, parts=(*total, *found.parts), outputs=outputs)

    return with_sum


def sum_before(calls: Calls, linear: Call, before: Sequence[Call]) -> tuple[Call, ...]:
    """Return the RMS norm and the sum that give the x of a GEMM, or nothing.

    `before` is what comes between the sum and the GEMM: nothing or another RMS norm, with views.
    Other calls may read the sum, too.
    """
    if linear.name in QUANTIZED_INPUT_LINEARS or (before and before[0].name != RMS_NORM):
        return ()
    x = calls.argument(before[0], "input") if before else calls.argument(linear, "x")
    addition, between = calls.producer(x)
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return ()
    for value_id in addition.args[:2]:
        norm, views = calls.producer(value_id)
        if norm is None or norm.name != RMS_NORM or addition.args[0] == addition.args[1]:
            continue
        if calls.sole_user(norm.args[-1])[0] is addition and has_stored_gains(calls, norm, before):
            return (norm, *views, addition, *between)
    return ()


def has_stored_gains(calls: Calls, norm: Call, before: Sequence[Call]) -> bool:
    """Return whether the gains of the norms are constants, which kernels can bind as uniforms."""
    gains = {calls.argument(one, "weight") for one in (norm, *before[:1])}
    return gains <= calls.flow.stored and gains.isdisjoint(calls.flow.state)
