"""Rules for products of plain matrices; what they become is in ops/gemm/fused_matmul.py."""

from __future__ import annotations

from webpte.graph.graph import Call, Tensor
from webpte.ops.elementwise.fused_elementwise import NAMES
from webpte.ops.gemm.fused_matmul import (
    ACTIVATIONS,
    JOINED,
    JOINED_PRODUCTS,
    LINEAR,
    PRODUCT_ENDING,
)
from webpte.ops.gemm.gemm import MAX_SLICED_ROWS
from webpte.rewrite.fusion.engine import Calls, Match
from webpte.shapes import numel

PRODUCTS = frozenset({LINEAR, "aten.mm.default", "aten.addmm.default"})


def activation_after_product(calls: Calls, call: Call) -> Match | None:
    """product, views, gelu or such, unless more element-wise ops could follow in one kernel."""
    if call.name not in PRODUCTS:
        return None
    activation, views = calls.sole_user(call.args[-1])
    if activation is None or activation.name not in ACTIVATIONS:
        return None
    following = calls.only_reader(activation.args[-1])
    if following is not None and following.name in NAMES:
        return None
    return Match(PRODUCT_ENDING, (call, *views, activation), (activation.args[-1],))


def joined_products(calls: Calls, call: Call) -> Match | None:
    """Three linear layers of many rows of one x, the last of which this is."""
    if call.name != LINEAR or not _has_many_rows(calls, call):
        return None
    x = calls.argument(call, "x")
    linears = [reader for reader in calls.readers(x) if reader.name == LINEAR]
    if len(linears) != JOINED or linears[-1] is not call:
        return None
    if any(calls.argument(linear, "x") != x for linear in linears):
        return None
    return Match(JOINED_PRODUCTS, tuple(linears), tuple(linear.args[-1] for linear in linears))


def _has_many_rows(calls: Calls, call: Call) -> bool:
    """At most: at live sizes there may be fewer."""
    out = calls.graph.value(call.args[-1])
    return isinstance(out, Tensor) and numel(out.dims[:-1]) > MAX_SLICED_ROWS
