"""Rules for attention with all that is around it; see ops/fused_attention.py."""

from __future__ import annotations

from webpte.fusion.core import Calls, Found
from webpte.fusion.products import add_after_product, are_of_one_kind, taken_before
from webpte.graph import Call
from webpte.ops.dense_rows import LINEAR
from webpte.ops.fused_attention import ATTENTION_BLOCK, ROPES, SDPA
from webpte.ops.fused_products import PLAIN_LINEARS


def attention_block(calls: Calls, call: Call) -> Found | None:
    """(norm,) q, k and v of one x, rope, attention with a cache."""
    if call.name != SDPA:
        return None
    query, key, value = (calls.argument(call, name) for name in ("query", "key", "value"))
    rope, views = calls.origin(query)
    if rope is None or rope.name not in ROPES or views:
        return None
    if calls.graph.value_list(rope.args[-1]) != (query, key):
        return None
    sources = [calls.origin(i) for i in (*(calls.argument(rope, n) for n in ("xq", "xk")), value)]
    linears = [source for source, _ in sources if source is not None]
    between = [view for _, views in sources for view in views]
    if len(linears) < 3 or not are_of_one_kind(linears):
        return None
    if len({calls.argument(linear, "x") for linear in linears}) > 1:
        return None
    before = taken_before(calls, linears)
    if before is None:
        return None
    parts = (*before, *linears, *between, rope, call)
    return Found(ATTENTION_BLOCK, parts, (call.args[-1],))


def product_after_attention(calls: Calls, call: Call) -> Found | None:
    """The same, the product that takes its result, and the residual."""
    if call.name not in PLAIN_LINEARS or call.name == LINEAR:
        return None
    attention, views = calls.origin(calls.argument(call, "x"))
    if attention is None or attention.name != SDPA:
        return None
    block = attention_block(calls, attention)
    if block is None:
        return None
    added = add_after_product(calls, call)
    after = added.parts if added else (call,)
    # What is between the parts is in no memory, so nothing but the product's x may be among it.
    given = {i for part in (*block.parts, *views) for i in calls.flow.gives(part)}
    others = [i for part in after for i in calls.flow.takes(part) if i in given]
    if others != [calls.argument(call, "x")]:
        return None
    return Found(ATTENTION_BLOCK, (*block.parts, *views, *after), (after[-1].args[-1],))
