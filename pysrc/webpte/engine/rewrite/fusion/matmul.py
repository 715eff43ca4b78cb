"""Rules for GEMMs of plain matrices; ops/gemm/fused_matmul.py lowers them."""

from __future__ import annotations

from webpte.engine.graph.graph import Call, Tensor
from webpte.engine.ops.elementwise.fused_elementwise import NAMES
from webpte.engine.ops.elementwise.unary import ACTIVATIONS
from webpte.engine.ops.gemm.fused_matmul import GEMM_EPILOGUE, GEMM_QKV, QKV
from webpte.engine.ops.gemm.lib.gemm import MAX_SKINNY_ROWS
from webpte.engine.ops.gemm.matmul import LINEAR
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.shapes import numel

GEMMS = frozenset({LINEAR, "aten.mm.default", "aten.addmm.default"})


@rule(100)
def activation_after_gemm(calls: Calls, call: Call) -> Match | None:
    """Match a GEMM, views and an activation, unless the activation can fuse with a later op."""
    if call.name not in GEMMS:
        return None
    activation, views = calls.sole_user(call.args[-1])
    if activation is None or activation.name not in ACTIVATIONS:
        return None
    following = calls.only_reader(activation.args[-1])
    if following is not None and following.name in NAMES:
        return None
    return Match(GEMM_EPILOGUE, (call, *views, activation), (activation.args[-1],))


@rule(110)
def gemm_qkv(calls: Calls, call: Call) -> Match | None:
    """Match three linear layers of many rows of the same x; `call` is the last."""
    if call.name != LINEAR or not _has_many_rows(calls, call):
        return None
    x = calls.argument(call, "x")
    linears = [reader for reader in calls.readers(x) if reader.name == LINEAR]
    if len(linears) != QKV or linears[-1] is not call:
        return None
    if any(calls.argument(linear, "x") != x for linear in linears):
        return None
    return Match(GEMM_QKV, tuple(linears), tuple(linear.args[-1] for linear in linears))


def _has_many_rows(calls: Calls, call: Call) -> bool:
    """Return whether a linear layer has many rows at its largest shape; live rows may be few."""
    out = calls.graph.value(call.args[-1])
    return isinstance(out, Tensor) and numel(out.dims[:-1]) > MAX_SKINNY_ROWS
