"""Rules around matrix products; what they become is in ops/fused_products.py."""

from __future__ import annotations

from webpte.format.vulkan import DoubleValue, IntValue
from webpte.fusion.core import Calls, Found
from webpte.graph import Call
from webpte.ops.fused_products import (
    GATED_PRODUCT,
    LINEAR_OF,
    NORMED_PRODUCT,
    PLAIN_LINEARS,
    PRODUCT_ADD,
    RMS_NORM,
)

ADD, MUL, SIGMOID, SILU = (
    "aten.add.Tensor",
    "aten.mul.Tensor",
    "aten.sigmoid.default",
    "aten.silu.default",
)
PLAIN_PRODUCTS = {"aten.linear.default", "aten.mm.default"}


def add_after_product(calls: Calls, call: Call) -> Found | None:
    """product, views, add: the residual becomes the product's addend."""
    if call.name not in LINEAR_OF and call.name not in PLAIN_PRODUCTS:
        return None
    addition, views = calls.destiny(call.args[-1])
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return None
    if addition.args[0] == addition.args[1]:
        return None
    return Found(PRODUCT_ADD, (call, *views, addition), (addition.args[-1],))


def gated_products(calls: Calls, call: Call) -> Found | None:
    """silu(gate) * up of two products of one x, the norm before them if it is theirs alone."""
    if call.name != MUL:
        return None
    for gated, other in (call.args[:2], call.args[1::-1]):
        silu = _silu(calls, gated)
        up, up_views = calls.origin(other)
        if silu is None or up is None:
            continue
        gate, *rest = silu
        pair = (gate, up)
        if gate is up or any(linear.name not in PLAIN_LINEARS for linear in pair):
            continue
        if calls.argument(gate, "x") != calls.argument(up, "x"):
            continue
        before = norm_before(calls, gate, set(pair))
        # In this order little is kept at once where they run one by one.
        parts = (*before, gate, *rest, up, *up_views, call)
        return Found(GATED_PRODUCT, parts, (call.args[-1],))
    return None


def norm_before_product(calls: Calls, call: Call) -> Found | None:
    """rms_norm whose only reader is a product."""
    if call.name not in PLAIN_LINEARS:
        return None
    before = norm_before(calls, call, {call})
    return Found(NORMED_PRODUCT, (*before, call), (call.args[-1],)) if before else None


def _silu(calls: Calls, value_id: int) -> list[Call] | None:
    """The call whose result goes through x * sigmoid(x), and those that do it."""
    last, after = calls.origin(value_id)
    if last is None:
        return None
    if last.name == SILU:
        source, views = calls.origin(last.args[0])
        return None if source is None else [source, *views, last, *after]
    if last.name != MUL:
        return None
    for straight, bent in (last.args[:2], last.args[1::-1]):
        sigmoid, between = calls.origin(bent)
        if sigmoid is not None and sigmoid.name == SIGMOID and sigmoid.args[0] == straight:
            source, views = calls.origin(straight)
            return None if source is None else [source, *views, sigmoid, *between, last, *after]
    return None


def norm_before(calls: Calls, linear: Call, readers: set[Call]) -> tuple[Call, ...]:
    """The norm before some products, with the views between, if nobody else reads it."""
    norm, views = calls.origin(calls.argument(linear, "x"))
    if norm is None or norm.name != RMS_NORM:
        return ()
    steps = (norm, *views)
    for step, following in zip(steps, (*views, None), strict=True):
        wanted = readers if following is None else {following}
        out = step.args[-1]
        if set(calls.readers(out)) != wanted or out in calls.graph.outputs:
            return ()
    return steps


def is_one(calls: Calls, call: Call, name: str) -> bool:
    value_id = calls.argument(call, name)
    value = None if value_id < 0 else calls.graph.value(value_id)
    return value is None or (isinstance(value, IntValue | DoubleValue) and value.value == 1)
