"""The rule for GEMVs that compute their row; see ops/gemm/computed_row.py.

It extends the rules of attention and gated GEMMs by the calls that compute their x: an RMS norm and
its sum with a residual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.engine.graph.graph import Call
from webpte.engine.ops.attention.fused_attention import ATTENTION_BLOCK
from webpte.engine.ops.attention.fused_head_attention import HEAD_ATTENTION
from webpte.engine.ops.gemm.fused_linear_q4 import GATED_GEMM, LINEAR_OF, QUANTIZED_INPUT_LINEARS
from webpte.engine.ops.norm.fused_norm import RMS_NORM
from webpte.engine.rewrite.fusion.attention import attention_block
from webpte.engine.rewrite.fusion.engine import Calls, Match, Rule, rule
from webpte.engine.rewrite.fusion.heads import head_attention
from webpte.engine.rewrite.fusion.linear_q4 import ADD, gated_gemms, is_one

EXTENDED: tuple[Rule, ...] = (head_attention, attention_block, gated_gemms)
KINDS = frozenset({ATTENTION_BLOCK, HEAD_ATTENTION, GATED_GEMM})
Row = tuple[tuple[Call, ...], int]  # the calls that compute a row, and the row


@rule(10)
def computed_row(calls: Calls, call: Call) -> Match | None:
    """Match a GEMV rule together with the norm and sum that compute its input row."""
    for extended in EXTENDED:
        found = extended(calls, call)
        if found is not None and found.op in KINDS and (row := row_before(calls, found)):
            made, value_id = row
            return replace(found, parts=(*made, *found.parts), outputs=(value_id, *found.outputs))
    return None


def row_before(calls: Calls, found: Match) -> Row | None:
    """Return the calls that compute the x of a match."""
    linears = [part for part in found.parts if part.name in LINEAR_OF]
    if not linears or linears[0].name in QUANTIZED_INPUT_LINEARS:
        return None
    return sum_before(calls, linears[0], found.parts[: found.parts.index(linears[0])])


def sum_before(calls: Calls, linear: Call, before: Sequence[Call]) -> Row | None:
    """Return the RMS norm and the sum that give the x of a GEMM, and the views after them.

    `before` has the calls between the sum and the GEMM: views, and possibly another RMS norm.
    """
    if before and before[0].name != RMS_NORM:
        return None
    x = calls.argument(before[0], "input") if before else calls.argument(linear, "x")
    addition, between = calls.producer(x)
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return None
    if addition.args[0] == addition.args[1]:
        return None
    for value_id in addition.args[:2]:
        norm, views = calls.producer(value_id)
        if norm is None or norm.name != RMS_NORM:
            continue
        alone = calls.sole_user(norm.args[-1])[0] is addition
        if alone and have_stored_gains(calls, (norm, *before[:1])):
            return (norm, *views, addition, *between), addition.args[-1]
    return None


def have_stored_gains(calls: Calls, norms: Sequence[Call]) -> bool:
    """Return whether the gains of norms are constants, which kernels can bind as uniforms."""
    gains = {calls.argument(norm, "weight") for norm in norms}
    return gains <= calls.flow.stored and gains.isdisjoint(calls.flow.state)
