"""The rule for attention with biases or norms per head: ops/attention/fused_head_attention.py."""

from __future__ import annotations

from webpte.engine.graph.graph import Call, Tensor
from webpte.engine.ops import definition_of
from webpte.engine.ops.attention.fused_attention import ROPES, SDPA
from webpte.engine.ops.attention.fused_head_attention import ADD, HEAD_ATTENTION
from webpte.engine.ops.gemm.fused_linear_q4 import ALL_LINEARS
from webpte.engine.ops.norm.fused_norm import RMS_NORM
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.rewrite.fusion.linear_q4 import are_of_one_kind, is_one, prologue_before

Projection = tuple[Call, tuple[Call, ...]]  # a linear layer, and the calls after it


@rule(20)
def head_attention(calls: Calls, call: Call) -> Match | None:
    """Match (norm,) q, k and v with biases or norms, maybe rotary embedding, and attention."""
    if call.name != SDPA:
        return None
    ids = [calls.argument(call, name) for name in ("query", "key", "value")]
    rope, views = calls.producer(ids[0])
    rotations: tuple[Call, ...] = ()
    if rope is not None and rope.name in ROPES and not views:
        if calls.graph.value_list(rope.args[-1]) != tuple(ids[:2]):
            return None
        ids[:2] = [calls.argument(rope, name) for name in ("xq", "xk")]
        rotations = (rope,)
    projections = [found for i in ids if (found := _projection(calls, i)) is not None]
    linears = [linear for linear, _ in projections]
    if len(projections) < 3 or not are_of_one_kind(linears):
        return None
    if len({calls.argument(linear, "x") for linear in linears}) > 1:
        return None
    changed = any(not calls.is_view(step) for _, steps in projections for step in steps)
    if rotations and not changed and not any(has_bias(calls, linear) for linear in linears):
        return None  # `attention_block` fuses these
    before = prologue_before(calls, linears, centered=True)
    if before is None:
        return None
    between = [step for _, steps in projections for step in steps]
    return Match(HEAD_ATTENTION, (*before, *linears, *between, *rotations, call), (call.args[-1],))


def _projection(calls: Calls, value_id: int) -> Projection | None:
    """Return the linear layer of a value, and the later views, bias or branch, and norm."""
    steps, biased, normed = list[Call](), False, False
    while (call := calls.writer(value_id)) is not None:
        if call.name in ALL_LINEARS:
            both = biased and has_bias(calls, call)
            return None if both else (call, tuple(reversed(steps)))
        if calls.is_view(call):
            value_id = calls.viewed(call)
        elif call.name == RMS_NORM and not (biased or normed):
            value_id, normed = calls.argument(call, "input"), True
        elif not biased and (inner := _before_sum(calls, call, normed)) is not None:
            value_id, biased = inner, True
        else:
            return None
        steps.append(call)
    return None


def _before_sum(calls: Calls, call: Call, normed: bool) -> int | None:
    """Return the value to which a call adds a bias, or a branch if no norm follows."""
    inner = before_bias(calls, call)
    return before_branch(calls, call) if inner is None and not normed else inner


def before_bias(calls: Calls, call: Call) -> int | None:
    """Return the value to which a call adds a stored bias: a number for each element of a row."""
    if call.name != ADD or not is_one(calls, call, "alpha"):
        return None
    out = calls.graph.tensor(call.args[-1])
    for inner, bias in (call.args[:2], call.args[1::-1]):
        given, row = calls.graph.value(bias), calls.graph.value(inner)
        if not isinstance(given, Tensor) or not isinstance(row, Tensor):
            continue
        stored = bias in calls.flow.stored and bias not in calls.flow.state
        alike = given.dtype == row.dtype == out.dtype
        if stored and alike and row.dims == out.dims and given.dims == out.dims[-1:]:
            return inner
    return None


def before_branch(calls: Calls, call: Call) -> int | None:
    """Return the linear layer's result to which a call adds a branch of equal shape."""
    if call.name != ADD or not is_one(calls, call, "alpha"):
        return None
    base, branch, out = (calls.graph.value(i) for i in (*call.args[:2], call.args[-1]))
    if not all(isinstance(value, Tensor) for value in (base, branch, out)):
        return None
    kinds = {(t.dtype, t.dims) for t in (base, branch, out) if isinstance(t, Tensor)}
    makers = [calls.writer(i) for i in call.args[:2]]
    linear = all(maker is not None and maker.name in ALL_LINEARS for maker in makers)
    return call.args[0] if len(kinds) == 1 and linear and makers[0] is not makers[1] else None


def has_bias(calls: Calls, linear: Call) -> bool:
    """Return whether a linear layer has a bias among its arguments."""
    op = definition_of(linear)
    if op is None or "bias" not in op.signature.positions:
        return False
    value_id = calls.argument(linear, "bias")
    return value_id >= 0 and isinstance(calls.graph.value(value_id), Tensor)
