"""The rule for attention with q, k, v and rotary embedding: ops/attention/fused_attention.py."""

from __future__ import annotations

from webpte.engine.graph.graph import Call
from webpte.engine.ops.attention.fused_attention import ATTENTION_BLOCK, ROPES, SDPA
from webpte.engine.ops.slots.fused_slot_attention import SLOT_ATTENTION_BLOCK
from webpte.engine.ops.slots.slot_attention import SLOT_SDPA
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.rewrite.fusion.linear_q4 import are_of_one_kind, prologue_before

BLOCKS = {SDPA: ATTENTION_BLOCK, SLOT_SDPA: SLOT_ATTENTION_BLOCK}


@rule(30)
def attention_block(calls: Calls, call: Call) -> Match | None:
    """Match (norm,) q, k and v of the same x, rotary embedding and attention with a KV cache."""
    if call.name not in BLOCKS:
        return None
    query, key, value = (calls.argument(call, name) for name in ("query", "key", "value"))
    rope, views = calls.producer(query)
    if rope is None or rope.name not in ROPES or views:
        return None
    if calls.graph.value_list(rope.args[-1]) != (query, key):
        return None
    sources = [calls.producer(i) for i in (*(calls.argument(rope, n) for n in ("xq", "xk")), value)]
    linears = [source for source, _ in sources if source is not None]
    between = [view for _, views in sources for view in views]
    if len(linears) < 3 or not are_of_one_kind(linears):
        return None
    if len({calls.argument(linear, "x") for linear in linears}) > 1:
        return None
    before = prologue_before(calls, linears)
    if before is None:
        return None
    parts = (*before, *linears, *between, rope, call)
    return Match(BLOCKS[call.name], parts, (call.args[-1],))
